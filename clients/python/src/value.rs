//! Numbers and times as Python passes them.

use std::time::Duration;

use pyo3::prelude::*;
use tollgate::Timestamp;

use crate::error::request;

/// Units: a whole number from 0 to 2^64 - 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units(pub(crate) u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Units {
    type Error = PyErr;

    #[inline]
    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Units> {
        value.extract().map(Units).map_err(|_| {
            let py = value.py();
            let shown = value.repr().map_or_else(|_| "a value".into(), |text| text.to_string());
            request(py, format!("{shown} units: must be a whole number from 0 to 2^64 - 1"))
        })
    }
}

/// A time: seconds since 1970, as `time.time()` returns them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) Timestamp);

impl<'a, 'py> FromPyObject<'a, 'py> for At {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<At> {
        let micros = micros(&value, "a time in seconds since 1970")?;
        Ok(At(Timestamp::from_micros(micros)))
    }
}

/// A span of time in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(pub(crate) Duration);

impl<'a, 'py> FromPyObject<'a, 'py> for Span {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Span> {
        micros(&value, "a time in seconds").map(|micros| Span(Duration::from_micros(micros)))
    }
}

/// Whole microseconds of a number of seconds, to the nearest.
fn micros(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u64> {
    const MOST: f64 = (1_u64 << 62) as f64;
    let seconds: f64 = value.extract()?;
    let micros = (seconds * 1e6).round();
    if micros.is_finite() && (0.0..MOST).contains(&micros) {
        Ok(micros as u64)
    } else {
        Err(request(value.py(), format!("{seconds}: must be {what}, at least 0")))
    }
}

/// Seconds of a span, for Python.
pub(crate) fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

/// Seconds since 1970, for Python.
pub(crate) fn instant(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}
