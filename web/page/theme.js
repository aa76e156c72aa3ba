"use strict";
// Before anything is painted: the theme that was chosen here, if any.
try {
  document.documentElement.dataset.theme = localStorage.getItem("tidemark-theme") ?? "auto";
} catch {
  document.documentElement.dataset.theme = "auto"; // the browser keeps nothing
}
