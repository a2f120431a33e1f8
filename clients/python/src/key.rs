//! Keys: `str`, `bytes`, `int`, an address of `ipaddress`, a tuple of these, or [`Tagged`].
//! A Python key names the same counter as the Rust key of the same parts.

use std::borrow::Cow;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString, PyTuple, PyType};
use tollgate::{Key, KeyRef, Parts};

/// A key with a tag. All keys with the same tag are kept on the same shard of a shared store, so
/// that one call can decide several of them.
#[pyclass(frozen, module = "pytollgate", skip_from_py_object)]
#[derive(Debug)]
pub(crate) struct Tagged {
    #[pyo3(get)]
    tag: Py<PyAny>,
    #[pyo3(get)]
    key: Py<PyAny>,
}

#[pymethods]
impl Tagged {
    #[new]
    fn new(tag: Py<PyAny>, key: Py<PyAny>) -> Tagged {
        Tagged { tag, key }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Tagged({}, {})", self.tag.bind(py).repr()?, self.key.bind(py).repr()?))
    }
}

/// A key as stores want it. Text and bytes are borrowed from Python where that is possible.
#[derive(Debug)]
pub(crate) enum PyKey<'a> {
    Plain(Cow<'a, [u8]>),
    Number(i128),
    Parts(Vec<PyKey<'static>>),
    Tagged(Box<(PyKey<'static>, PyKey<'static>)>),
}

impl<'a> PyKey<'a> {
    #[inline]
    pub(crate) fn of(value: &'a Bound<'_, PyAny>) -> PyResult<PyKey<'a>> {
        match value.cast::<PyString>() {
            Ok(text) => Ok(PyKey::Plain(Cow::Borrowed(text.to_str()?.as_bytes()))),
            Err(_) => PyKey::of_other(value),
        }
    }

    fn of_other(value: &'a Bound<'_, PyAny>) -> PyResult<PyKey<'a>> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(PyKey::Plain(Cow::Borrowed(bytes.as_bytes())));
        }
        if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
            return value.extract().map(PyKey::Number).or_else(|_| text_of(value));
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            let parts = tuple.iter().map(|part| PyKey::owned(&part));
            return Ok(PyKey::Parts(parts.collect::<PyResult<_>>()?));
        }
        if let Ok(tagged) = value.cast::<Tagged>() {
            let (tag, key) = (tagged.get().tag.bind(value.py()), tagged.get().key.bind(value.py()));
            return Ok(PyKey::Tagged(Box::new((PyKey::owned(tag)?, PyKey::owned(key)?))));
        }
        if is_address(value)? {
            return text_of(value);
        }
        Err(PyTypeError::new_err(format!(
            "key {}: must be str, bytes, int, an address of ipaddress, a tuple of these, or Tagged",
            value.repr()?
        )))
    }

    /// The same key with its own data, because a tuple may be dropped before its parts are used.
    fn owned(value: &Bound<'_, PyAny>) -> PyResult<PyKey<'static>> {
        Ok(match PyKey::of(value)? {
            PyKey::Plain(bytes) => PyKey::Plain(Cow::Owned(bytes.into_owned())),
            PyKey::Number(number) => PyKey::Number(number),
            PyKey::Parts(parts) => PyKey::Parts(parts),
            PyKey::Tagged(tagged) => PyKey::Tagged(tagged),
        })
    }

    /// Calls `f` with the key. Not generic, because a tuple contains keys of its own type.
    fn visit(&self, f: &mut dyn FnMut(KeyRef<'_>)) {
        match self {
            PyKey::Plain(bytes) => f(KeyRef::plain(bytes)),
            PyKey::Number(number) => number.with_key(f),
            PyKey::Parts(parts) => Parts(parts).with_key(f),
            PyKey::Tagged(tagged) => tollgate::Tagged(&tagged.0, &tagged.1).with_key(f),
        }
    }
}

impl Key for PyKey<'_> {
    #[inline]
    fn with_key<R>(&self, f: impl FnOnce(KeyRef<'_>) -> R) -> R {
        if let PyKey::Plain(bytes) = self {
            return f(KeyRef::plain(bytes));
        }
        let (mut f, mut result) = (Some(f), None);
        self.visit(&mut |key| result = f.take().map(|f| f(key)));
        match result {
            Some(result) => result,
            None => unreachable!("every kind of key calls its visitor once"),
        }
    }
}

fn text_of(value: &Bound<'_, PyAny>) -> PyResult<PyKey<'static>> {
    Ok(PyKey::Plain(Cow::Owned(value.str()?.to_str()?.as_bytes().to_vec())))
}

fn is_address(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static V4: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static V6: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let v4 = V4.import(value.py(), "ipaddress", "IPv4Address")?;
    let v6 = V6.import(value.py(), "ipaddress", "IPv6Address")?;
    Ok(value.is_instance(v4)? || value.is_instance(v6)?)
}
