(function () {
  function show(name) {
    document.body.classList.toggle("lit", name !== null);
    document.querySelectorAll("[data-recipe]").forEach(function (node) {
      node.classList.toggle("on", node.getAttribute("data-recipe") === name);
    });
  }
  document.addEventListener("mouseover", function (event) {
    var node = event.target.closest ? event.target.closest("[data-recipe]") : null;
    show(node ? node.getAttribute("data-recipe") : null);
  });
  document.documentElement.addEventListener("mouseleave", function () { show(null); });
})();
