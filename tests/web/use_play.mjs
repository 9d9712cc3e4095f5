// Uses the page that tries requests as a person does: breaks a rule, mends it, sends, stops; then judges many requests.
import { readFileSync } from "node:fs";
import { tell, withPage } from "./browser.mjs";

const [url, width, scheme, cases, pictures] = process.argv.slice(2);
const sent = [];

const text = (page, selector) => page.$eval(selector, (element) => element.textContent);
const fault = (page, name) => page.evaluate((id) => document.getElementById(id).textContent, `fault:${name}`);

/** Types into a control by its id, as the form names it. */
async function put(page, id, value) {
  await page.evaluate((name) => {
    const control = document.getElementById(name);
    control.focus();
    control.select();
  }, id);
  await page.keyboard.press("Backspace");
  await page.keyboard.type(value);
}

async function pick(page, id, shown) {
  await page.evaluate(
    (name, wanted) => {
      const select = document.getElementById(name);
      select.value = [...select.options].find((option) => option.textContent === wanted).value;
      select.dispatchEvent(new Event("change"));
    },
    id,
    shown,
  );
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}-${name}.png`, fullPage: name === "whole" });
}

tell(
  await withPage({ width: Number(width), scheme }, async (page) => {
    page.on("request", (request) => request.method() === "POST" && sent.push(request.postData()));
    await page.goto(url, { waitUntil: "load" });
    await page.waitForSelector("body[data-ready]");
    const made = { allowed: await text(page, "#verdict") };
    await picture(page, "whole");
    made.stops = [];
    for (let count = 0; count < 8; count += 1) {
      await page.keyboard.press("Tab");
      made.stops.push(await page.evaluate(() => document.activeElement.id || document.activeElement.textContent));
    }

    await put(page, "at:n", "2");
    await put(page, "at:temperature", "0");
    made.rule = {
      beside: await fault(page, "n"),
      other: await fault(page, "temperature"),
      above: await text(page, "#verdict"),
      button: await text(page, "#send"),
    };
    await picture(page, "rule");
    await put(page, "at:n", "9000");
    made.range = { beside: await fault(page, "n"), invalid: await page.$eval("[id='at:n']", (one) => one.ariaInvalid) };
    await put(page, "at:n", "");
    made.sentBefore = sent.length;

    await put(page, "at:seed", "18446744073709551615");
    await put(page, "at:max_tokens", "30");
    await put(page, "in:messages[0].content", 'it\'s a "test" $HOME `x`\\');
    await pick(page, "at:stream", "true");
    made.raw = await page.$eval("#raw", (area) => area.value);
    made.curl = await text(page, "#curl");
    await page.evaluate(() => {
      window.seen = new Set();
      new MutationObserver(() =>
        window.seen.add(document.querySelector("#answer .said")?.textContent.length ?? 0),
      ).observe(document.getElementById("answer"), { childList: true, subtree: true, characterData: true });
    });
    await page.keyboard.down("Control");
    await page.keyboard.press("Enter");
    await page.keyboard.up("Control");
    await page.waitForFunction(
      () =>
        /^200.*events/.test(document.getElementById("status").textContent) &&
        !document.getElementById("answer").hasAttribute("aria-busy"),
    );
    made.streamed = {
      steps: await page.evaluate(() => window.seen.size),
      text: await text(page, "#answer"),
      wire: await text(page, "#wire"),
    };
    made.body = sent.at(-1);
    await picture(page, "answer");

    await put(page, "at:max_tokens", "100000");
    await pick(page, "at:ignore_eos", "true");
    await page.click("#send");
    await page.waitForFunction(() => (document.querySelector("#answer .said")?.textContent.length ?? 0) > 3);
    await page.click("#stop");
    await page.waitForFunction(() => document.getElementById("status").textContent === "Stopped.");
    made.stopped = await page.$eval("#stop", (button) => button.disabled);

    await put(
      page,
      "raw",
      '{"model": "mock", "messages": [{"role": "user", "content": [{"text": "a"}]}], "seed": 9007199254740993, "stop": ["a", "b"]}',
    );
    made.form = await page.evaluate(() => [
      document.getElementById("at:seed").value,
      document.getElementById("in:stop[1]")?.value ?? document.getElementById("at:stop[1]").value,
    ]);
    await picture(page, "nested");
    await put(page, "raw", '{"model": ');
    made.broken = await text(page, "#raw-fault");

    await pick(page, "endpoint", "GET /v1/models - What is deployed");
    await page.click("#send");
    await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("200"));
    made.models = await text(page, "#answer");

    const tree = await page.accessibility.snapshot({ interestingOnly: true });
    const nodes = (node) => [node, ...(node.children ?? []).flatMap(nodes)];
    const controls = nodes(tree).filter((node) => ["textbox", "combobox", "button", "checkbox"].includes(node.role));
    made.unnamed = controls.filter((node) => !node.name).map((node) => node.role);
    made.overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    made.ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);

    if (cases) made.verdicts = await page.evaluate(judged, readFileSync(cases, "utf8"));
    return made;
  }),
);

/** In the page: its own verdict on each case of a text, as [code, param]. */
async function judged(all) {
  const [{ Judge, PLAIN }, { readContract }, { pathText }, { parse, plain }] = await Promise.all(
    ["verdict", "contract", "fields", "json"].map((name) => import(`/pages/${name}.js`)),
  );
  const expand = (value) => {
    if (Array.isArray(value)) return value.map(expand);
    if (!(value instanceof Map)) return value;
    if (value.size === 2 && value.has("repeat") && value.has("times")) {
      const [unit, times] = [expand(value.get("repeat")), Number(value.get("times"))];
      return typeof unit === "string" ? unit.repeat(times) : Array.from({ length: times }, () => unit);
    }
    return new Map([...value].map(([key, inner]) => [key, expand(inner)]));
  };
  const judge = new Judge(readContract(await (await fetch("openapi.json")).text()));
  return parse(all).map((one) => {
    const facts = { ...PLAIN, ...plain(one.get("deployment")) };
    const [first] = judge.faults(one.get("operation"), expand(one.get("body")), facts);
    return first ? [first.code, pathText(first.path) || null] : ["", null];
  });
}
