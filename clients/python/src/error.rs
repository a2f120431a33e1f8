//! Errors of tollgate as Python exceptions. Their classes are in `pytollgate/_errors.py`, because
//! some of them are a `ValueError` too.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tollgate::{Error, ErrorKind};

static LIMIT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static STORE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    raised(py, error).unwrap_or_else(|error| error)
}

fn raised(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (class, name) = match error.kind() {
        ErrorKind::Limit | ErrorKind::Unsupported => (&LIMIT, "LimitError"),
        ErrorKind::Request => (&REQUEST, "RequestError"),
        _ => (&STORE, "StoreError"),
    };
    let class = class.import(py, "pytollgate._errors", name)?;
    let kind = match error.kind() {
        ErrorKind::Limit => "limit",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Request => "request",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Lost => "lost",
        _ => "store",
    };
    let instance = class.call1((error.to_string(), kind, error.is_transient()))?;
    Ok(PyErr::from_value(instance))
}

/// A mistake of the caller.
pub(crate) fn request(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, &Error::request(message))
}
