//! The modules that are built under loom, which checks only the table and the modules it uses.

mod era;
mod sync;
mod table;
mod word;
