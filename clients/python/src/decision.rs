//! Decisions as Python objects.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tollgate::{Decision as Decided, Limit};
use tollgate_http::{Headers, LimitHeaders, problem};

use crate::call::Answer;
use crate::http::headers_named;
use crate::value::{instant, seconds};

/// The part that all decisions of a limiter share.
#[derive(Debug)]
pub(crate) struct Limits {
    limits: Box<[Limit]>,
    headers: Arc<LimitHeaders>,
}

impl Limits {
    pub(crate) fn new(limits: &[Limit]) -> Arc<Limits> {
        Arc::new(Limits { limits: limits.into(), headers: Arc::new(LimitHeaders::new(limits)) })
    }
}

/// The answer of a limiter. It is true if the hit is allowed. Figures are those of the limit that
/// denies with the longest wait, else of the one with the fewest units left.
#[pyclass(frozen, module = "pytollgate", skip_from_py_object)]
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) decided: Decided,
    limits: Arc<Limits>,
}

impl Decision {
    #[inline]
    pub(crate) fn new(decided: Decided, limits: &Arc<Limits>) -> Decision {
        Decision { decided, limits: Arc::clone(limits) }
    }
}

#[pymethods]
impl Decision {
    #[getter]
    fn allowed(&self) -> bool {
        self.decided.allowed()
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.decided.limit()
    }

    #[getter]
    fn remaining(&self) -> u64 {
        self.decided.remaining()
    }

    #[getter]
    fn used(&self) -> u64 {
        self.decided.used()
    }

    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.decided.retry_after().map(seconds)
    }

    #[getter]
    fn reset_after(&self) -> f64 {
        seconds(self.decided.reset_after())
    }

    #[getter]
    fn expires_at(&self) -> Option<f64> {
        self.decided.expires_at().map(instant)
    }

    #[getter]
    fn charged(&self) -> u64 {
        self.decided.charged()
    }

    #[getter]
    fn now(&self) -> f64 {
        instant(self.decided.now())
    }

    #[getter]
    fn source(&self) -> &'static str {
        self.decided.source().name()
    }

    #[getter]
    fn bound(&self) -> Option<u64> {
        self.decided.bound()
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.limits.limits.get(self.decided.headline_index())?.name()
    }

    #[getter]
    fn policy(&self) -> String {
        let texts: Vec<String> = self.limits.limits.iter().map(Limit::to_string).collect();
        texts.join("; ")
    }

    #[getter]
    fn outcomes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let of_limit = |(outcome, limit): (&tollgate::Outcome, &Limit)| {
            let limits = Limits::new(std::slice::from_ref(limit));
            Decision { decided: (*outcome).into(), limits }
        };
        let all = self.decided.outcomes().iter().zip(&self.limits.limits).map(of_limit);
        let all: PyResult<Vec<_>> = all.map(|outcome| Py::new(py, outcome)).collect();
        PyTuple::new(py, all?)
    }

    #[pyo3(signature = (names=None))]
    fn headers(&self, py: Python<'_>, names: Option<Vec<String>>) -> PyResult<Vec<(&str, String)>> {
        let headers = names.map_or(Ok(Headers::default()), |names| headers_named(py, &names))?;
        let mut written = Vec::new();
        if let Some(figures) = headers.figures(&self.limits.headers, &self.decided) {
            figures.write(|field, value| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                written.push((field.name(), value));
            });
        }
        Ok(written)
    }

    #[pyo3(signature = (status=429))]
    fn problem(&self, status: u16) -> String {
        problem(status, &self.limits.limits, self.decided.outcomes())
    }

    #[inline]
    fn __bool__(&self) -> bool {
        self.decided.allowed()
    }

    fn __repr__(&self) -> String {
        let decided = &self.decided;
        let wait = match decided.retry_after().map(seconds) {
            Some(wait) => wait.to_string(),
            None => "None".to_owned(),
        };
        format!(
            "Decision(allowed={}, limit={}, remaining={}, used={}, retry_after={wait}, source={:?})",
            if decided.allowed() { "True" } else { "False" },
            decided.limit(),
            decided.remaining(),
            decided.used(),
            decided.source().name(),
        )
    }
}

pub(crate) fn to_python(
    py: Python<'_>,
    answer: Answer,
    limits: &Arc<Limits>,
) -> PyResult<Py<PyAny>> {
    match answer {
        Answer::Decision(decided) => Ok(Py::new(py, Decision::new(decided, limits))?.into_any()),
        Answer::Decisions(all) => {
            let one = |decided| Py::new(py, Decision::new(decided, limits));
            all.into_iter().map(one).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
        }
        Answer::Units(units) => units.into_py_any(py),
        Answer::Flag(flag) => flag.into_py_any(py),
        Answer::Done => Ok(py.None()),
    }
}
