//! Under loom only the table is built: its proof needs no more.

mod sync;
mod table;
mod word;
