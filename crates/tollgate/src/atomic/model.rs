//! Under loom only the table and what it needs are built: the proof needs no more.

mod era;
mod sync;
mod table;
mod word;
