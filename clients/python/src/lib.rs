//! The native part of pytollgate: limiters, decisions, and what middleware needs of tollgate-http.
//!
//! Everything that Python can do as well is in `python/pytollgate`: asyncio, the clients of a
//! server, and the frameworks.

#![deny(unsafe_code)]

mod call;
mod decision;
mod error;
mod http;
mod key;
mod limiter;
mod mailbox;
mod process;
mod store;
mod value;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::Store>()?;
    module.add_class::<limiter::Limiter>()?;
    module.add_class::<decision::Decision>()?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add_class::<mailbox::Pending>()?;
    module.add_class::<http::ClientAddress>()?;
    module.add_class::<key::Tagged>()?;
    module.add_function(wrap_pyfunction!(limiter::hit_all, module)?)?;
    module.add_function(wrap_pyfunction!(limiter::start_hit_all, module)?)?;
    module.add_function(wrap_pyfunction!(http::check_headers, module)?)?;
    process::register(module)
}
