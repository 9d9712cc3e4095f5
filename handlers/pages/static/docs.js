// Shows the contract with Scalar: from the page itself where it stands there, else from the server that sent the page.
"use strict";

(async () => {
  const inside = document.getElementById("contract");
  const text = inside ? inside.textContent : await (await fetch("openapi.json")).text();
  const served = location.protocol.startsWith("http");
  const facts = served ? await fetch("deployment.json").then((answer) => (answer.ok ? answer.json() : {})) : {};
  const contract = JSON.parse(text, (key, value) =>
    // Rounded by JavaScript: the description has the exact number.
    (key === "maximum" || key === "minimum") && Math.abs(value) > Number.MAX_SAFE_INTEGER && Number.isInteger(value)
      && Math.abs(value) < 1e20 ? undefined : value);
  for (const operation of Object.values(contract.paths).flatMap((path) => Object.values(path))) {
    const examples = operation.requestBody?.content["application/json"].examples ?? {};
    for (const { value } of Object.values(examples)) value.model = facts.model ?? value.model;
  }
  const place = document.getElementById("docs");
  place.replaceChildren();
  window.Scalar.createApiReference(place, {
    content: contract,
    servers: served ? [{ url: location.origin, description: "this server" }] : contract.servers,
    withDefaultFonts: false,
    hideClientButton: true,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    showDeveloperTools: "never",
    expandAllSchemaProperties: true,
    defaultOpenAllTags: true,
    theme: "default",
    layout: "modern",
    documentDownloadType: "json",
    defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  });
})();
