// The page that tries requests: from the choice of an endpoint to the answer.

import { Answer } from "./answer.js";
import { readContract } from "./contract.js";
import { curlOf } from "./curl.js";
import { make } from "./dom.js";
import { pathText } from "./fields.js";
import { Form } from "./form.js";
import { JsonError, parse, print } from "./json.js";
import { mapped, startOfModel } from "./start.js";
import { Judge, PLAIN } from "./verdict.js";

const HERE = new URL("./", location.href);
const NOT_HERE = new Set(["stop_service"]);
const MOST_SHOWN = 5;
/** Faults that are listed above the button; all stand beside their members. */
const at = (id) => document.getElementById(id);

class Play {
  constructor(contract) {
    this.contract = contract;
    this.judge = new Judge(contract);
    this.deployment = PLAIN;
    this.form = new Form(at("form"), () => this.changed());
    this.faults = [];
    this.abort = null;
  }

  /** Fill the page and listen. */
  start() {
    const offered = [...this.contract.operations.values()].filter(
      (one) => one.plane !== "management" && !NOT_HERE.has(one.id),
    );
    at("endpoint").append(
      ...offered.map((one) => make("option", { value: one.id }, `${one.method} ${one.path} - ${one.summary}`)),
    );
    at("endpoint").addEventListener("change", () => this.choose());
    at("example").addEventListener("change", () => this.begin());
    at("key").addEventListener("change", () => this.learn());
    at("key").addEventListener("input", () => this.showCurl());
    at("req-id").addEventListener("input", () => this.showCurl());
    at("raw").addEventListener("input", () => this.readRaw());
    at("send").addEventListener("click", () => this.send());
    at("stop").addEventListener("click", () => this.abort?.abort());
    at("copy").addEventListener("click", () => this.copy());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.send();
    });
    at("form").addEventListener("submit", (event) => event.preventDefault());
    this.offerProfiles();
    this.choose();
  }

  /** Ask the server what its rules depend on; without an answer, rules are those of a plain deployment. */
  async learn() {
    const answer = await fetch(new URL("deployment.json", HERE), { headers: this.keyHeader() }).catch(() => null);
    const known = answer?.ok ? await answer.json() : null;
    this.deployment = known ?? PLAIN;
    const features = [...this.deployment.features, this.deployment.model_type].filter(Boolean);
    const rules = features.length ? [`with the rules of ${features.join(", ")}`] : [];
    at("facts").textContent = known
      ? `This deployment serves ${[known.model, ...rules, ...(known.openai_form ? ["in OpenAI's form"] : [])].join(", ")}.`
      : answer?.status === 401
        ? "This deployment needs an API key; its own rules are known once there is one."
        : "What this deployment's rules are is not known.";
    for (const tick of at("features").querySelectorAll("input")) {
      tick.disabled = features.includes(tick.value);
      tick.checked = tick.checked || tick.disabled;
    }
    this.form.facts = this.facts();
    if (this.value?.get("model") === this.named) this.name();
    this.form.draw();
    this.changed();
  }

  /** Name the deployed model, where nobody has named another. */
  name() {
    this.named = this.deployment.model ?? this.value?.get("model") ?? "";
    if (this.value?.has("model")) this.value.set("model", this.named);
    for (const input of at("path-parameters").querySelectorAll("input")) {
      if (input.dataset.name === "model" && !input.value) input.value = this.named;
    }
  }

  offerProfiles() {
    const rules = Object.values(this.contract.document.components["x-rules"]);
    const features = new Set(rules.flatMap((rule) => rule.profile?.features ?? []));
    const types = new Set(rules.map((rule) => rule.profile?.model_type).filter(Boolean));
    const tick = (name, kind) =>
      make(
        "label",
        {},
        make("input", { type: "checkbox", value: name, "data-kind": kind, change: () => this.changed() }),
        ` ${name}`,
      );
    at("features").append(
      ...[...features].map((name) => tick(name, "feature")),
      ...[...types].map((name) => tick(name, "type")),
    );
  }

  /** What the rules ask about: this deployment, and what is ticked. */
  facts() {
    const ticked = [...at("features").querySelectorAll("input:checked")];
    const features = ticked.filter((tick) => tick.dataset.kind === "feature").map((tick) => tick.value);
    const type = ticked.find((tick) => tick.dataset.kind === "type")?.value;
    return {
      ...this.deployment,
      features: [...new Set([...this.deployment.features, ...features])],
      model_type: type ?? this.deployment.model_type,
    };
  }

  choose() {
    this.operation = this.contract.operations.get(at("endpoint").value);
    const { examples, model } = this.operation;
    at("example").replaceChildren(
      make("option", { value: "" }, "the smallest request"),
      ...examples.map((example, index) => make("option", { value: String(index) }, example.summary)),
    );
    at("example-row").hidden = !model;
    const inPath = this.operation.parameters.filter((parameter) => parameter.in === "path");
    at("path-parameters").replaceChildren(
      ...inPath.map((parameter) => {
        const id = `path:${parameter.name}`;
        const input = make("input", {
          id,
          type: "text",
          autocomplete: "off",
          "data-name": parameter.name,
          input: () => this.showCurl(),
        });
        return make(
          "div",
          { class: "row" },
          make("div", { class: "line" }, make("label", { class: "name", for: id }, `{${parameter.name}}`), input),
          make("p", { class: "hint" }, parameter.description),
        );
      }),
    );
    this.begin();
  }

  /** Begin anew with the chosen example. */
  begin() {
    const { examples, model } = this.operation;
    const chosen = at("example").value;
    this.value = model ? (chosen ? mapped(examples[Number(chosen)].value) : startOfModel(model)) : null;
    this.name();
    this.form.show(model, this.value);
    this.changed();
  }

  /** The request has changed in the form. */
  changed() {
    at("raw").value = this.value ? print(this.value, 2) : "";
    at("raw").disabled = !this.value;
    at("raw-fault").textContent = "";
    this.judged();
  }

  /** The request has changed as text. */
  readRaw() {
    try {
      const found = parse(at("raw").value);
      if (!(found instanceof Map)) throw new JsonError("The body must be a JSON object", 0);
      this.value = found;
      at("raw-fault").textContent = "";
      this.form.show(this.operation.model, this.value);
      this.judged();
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
      this.faults = [{ path: [], code: "json_invalid", message: error.message }];
      at("raw-fault").textContent = error.message;
      this.tell();
    }
  }

  judged() {
    this.faults = this.value ? this.judge.faults(this.operation.id, this.value, this.facts()) : [];
    this.form.blame(this.faults);
    this.tell();
  }

  /** Say what is wrong, before anything is sent. */
  tell() {
    const { faults } = this;
    const list = faults.slice(0, MOST_SHOWN).map((fault) => {
      const row = this.form.rowOf(fault.path);
      const go = () => row.querySelector("input, select, textarea, button")?.focus();
      const name = pathText(fault.path) || "the body";
      return make(
        "li",
        {},
        row ? make("button", { type: "button", class: "link", click: go }, name) : name,
        `: ${fault.message} `,
        make("code", {}, fault.code),
      );
    });
    const more = faults.length > MOST_SHOWN ? make("li", {}, `and ${faults.length - MOST_SHOWN} more`) : null;
    const count =
      faults.length === 1
        ? "The contract refuses this request:"
        : `The contract refuses this request for ${faults.length} reasons:`;
    const said = JSON.stringify(faults.map((fault) => [fault.path, fault.message]));
    if (said !== this.said)
      at("verdict").replaceChildren(
        ...(faults.length
          ? [make("p", { class: "bad" }, count), make("ul", {}, list, more)]
          : [make("p", { class: "good" }, "The contract allows this request.")]),
      );
    this.said = said; // a status that does not change is not read out again
    at("send").textContent = faults.length ? "Send anyway" : "Send";
    at("short").textContent = faults.length ? `${faults.length} to mend` : "allowed";
    at("short").className = faults.length ? "bad" : "good";
    this.showCurl();
  }

  keyHeader() {
    return at("key").value ? { Authorization: `Bearer ${at("key").value}` } : {};
  }

  /** Method, address, headers and body as they are sent. */
  request() {
    const filled = this.operation.path.replace(/\{(\w+)\}/g, (_, name) =>
      encodeURIComponent(at(`path:${name}`)?.value ?? ""),
    );
    const headers = this.operation.model ? [["Content-Type", "application/json"]] : [];
    if (at("req-id").value) headers.push(["req-id", at("req-id").value]);
    const body = this.operation.model ? at("raw").value : null;
    return { method: this.operation.method, url: new URL(filled.slice(1), HERE).href, headers, body };
  }

  showCurl() {
    const streams = this.value?.get("stream") === true;
    at("curl").textContent = curlOf({ ...this.request(), streams, keyed: Boolean(at("key").value) });
  }

  async send() {
    const { method, url, headers, body } = this.request();
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    const answer = new Answer({ text: at("answer"), wire: at("wire"), status: at("status") });
    at("status").textContent = "Sent; waiting for the answer.";
    at("status").scrollIntoView({ block: "nearest" });
    at("stop").disabled = false;
    try {
      await answer.read(
        await fetch(url, {
          method,
          headers: [...headers, ...Object.entries(this.keyHeader())],
          body,
          signal: abort.signal,
        }),
      );
    } catch (error) {
      if (this.abort === abort) answer.end(error.name === "AbortError" ? "Stopped." : `No answer: ${error.message}`);
    }
    if (this.abort === abort) {
      this.abort = null;
      at("stop").disabled = true;
    }
  }

  async copy() {
    await navigator.clipboard?.writeText(at("curl").textContent);
    at("copied").textContent = navigator.clipboard ? "Copied." : "Select the text above; this page may not copy.";
  }
}

const contract = readContract(await (await fetch(new URL("openapi.json", HERE))).text());
const play = new Play(contract);
play.start();
await play.learn();
document.body.dataset.ready = "true";
