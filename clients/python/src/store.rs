//! Stores by URL.

use std::sync::Arc;

use pyo3::prelude::*;
use tollgate::shared::{AnyStore, SharedStore, without_secrets};
use tollgate_remote::Tokio;
use tollgate_stores::Opening;

use crate::call::block;
use crate::error::exception;
use crate::process::{PerProcess, runtime};
use crate::value::Span;

/// Where limiters count. Limiters on one store share its connections and its counters.
#[pyclass(frozen, module = "pytollgate")]
#[derive(Debug)]
pub(crate) struct Store {
    opening: Opening,
    url: String,
    opened: PerProcess<AnyStore>,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (url="memory:", *, deadline=None, remember_denials=None, max_keys=None, prefix=None))]
    pub(crate) fn new(
        py: Python<'_>,
        url: &str,
        deadline: Option<Span>,
        remember_denials: Option<usize>,
        max_keys: Option<usize>,
        prefix: Option<String>,
    ) -> PyResult<Store> {
        let mut opening = Opening::new(url).lazily();
        if let Some(Span(deadline)) = deadline {
            opening = opening.deadline(deadline);
        }
        if let Some(denials) = remember_denials {
            opening = opening.remember_denials(denials);
        }
        if let Some(keys) = max_keys {
            opening = opening.max_keys(keys);
        }
        if let Some(prefix) = prefix {
            opening = opening.prefix(prefix);
        }
        let opened = PerProcess::new(open(py, &opening)?);
        Ok(Store { opening, url: url.to_owned(), opened })
    }

    /// Gives back what this process has drawn in advance, and tells other nodes that it leaves.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.opened(py)?.clone();
        block(py, async move {
            store.leave().await;
            Ok(())
        })
    }

    /// The URL, without passwords.
    #[getter]
    fn url(&self) -> String {
        without_secrets(&self.url).to_string()
    }

    fn __repr__(&self) -> String {
        format!("Store({:?})", self.url())
    }
}

impl Store {
    pub(crate) fn opened(&self, py: Python<'_>) -> PyResult<&AnyStore> {
        self.opened.get(|| open(py, &self.opening))
    }
}

/// Opens a store without waiting for its server. Only files are read, with the GIL released.
fn open(py: Python<'_>, opening: &Opening) -> PyResult<AnyStore> {
    let runtime = runtime()?;
    let tokio = {
        let _entered = runtime.enter();
        Tokio::current("a store").map_err(|error| exception(py, &error))?
    };
    let opening = opening.clone().runtime(Arc::new(tokio));
    py.detach(|| runtime.block_on(opening.open())).map_err(|error| exception(py, &error))
}
