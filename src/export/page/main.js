"use strict";
/* main.js - opens the document and shows the page that it asks for. */
(() => {
  const main = document.getElementById("main");
  const doc = Data.open(document.getElementById("data").textContent);
  const pages = {schedules: showSchedules, run: showRun};
  pages[doc.page](doc, main);
})();
