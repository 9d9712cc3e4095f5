// Shows the contract with Scalar: from the page itself where it stands there, else from the server that sent the page.
"use strict";

(async () => {
  const inside = document.getElementById("contract");
  const asked = new URLSearchParams(location.search).get("lang");
  const language = inside ? document.documentElement.lang : asked === "zh" ? "zh" : "en";
  document.documentElement.lang = language;
  const source = language === "zh" ? "openapi.zh.json" : "openapi.json";
  const text = inside ? inside.textContent : await (await fetch(source)).text();
  const served = location.protocol.startsWith("http");
  const facts = served ? await fetch("deployment.json").then((answer) => (answer.ok ? answer.json() : {})) : {};
  const contract = JSON.parse(text, (key, value) =>
    // Rounded by JavaScript: the description has the exact number.
    (key === "maximum" || key === "minimum") &&
    Math.abs(value) > Number.MAX_SAFE_INTEGER &&
    Number.isInteger(value) &&
    Math.abs(value) < 1e20
      ? undefined
      : value,
  );
  for (const operation of Object.values(contract.paths).flatMap((path) => Object.values(path))) {
    const examples = operation.requestBody?.content["application/json"].examples ?? {};
    for (const { value } of Object.values(examples)) value.model = facts.model ?? value.model;
  }
  document.title = contract.info.title;
  if (served) {
    const links =
      language === "zh" ? "[English](docs?lang=en) | [试发请求](play)" : "[中文](docs?lang=zh) | [Try a request](play)";
    contract.info.description = `${links}\n\n${contract.info.description}`;
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
