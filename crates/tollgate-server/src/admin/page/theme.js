// Runs before the page is painted: no flash of the other theme.
"use strict";
try {
  const chosen = localStorage.getItem("tollgate-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* Storage may be turned off. */ }
