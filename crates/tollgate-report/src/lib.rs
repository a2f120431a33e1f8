//! The common parts of the reports of `tollgate replay` and `tollgate simulate`: numbers as people
//! write them, counts over time, and charts of them for a terminal, as SVG and in HTML.

#![forbid(unsafe_code)]

mod figures;
mod html;
mod svg;
mod terminal;
mod timeline;

pub use figures::{grouped, percent, span, utc};
pub use html::{escaped, page};
pub use svg::{histogram, standalone, timeline_chart};
pub use terminal::{bar, columns};
pub use timeline::{Axis, STEPS, Step, Timeline};
