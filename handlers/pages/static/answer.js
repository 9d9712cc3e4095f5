// Shows an answer as it comes: the text of each choice, why it ended, and everything as it came.

import { make } from "./dom.js";
import { eventsOf } from "./events.js";
import { JsonError, parse, plain, print } from "./json.js";

const MOST_WIRE = 200_000;
/** Characters of what came that the page keeps to show. */

/** Shows one answer in the elements `text`, `wire` and `status`. */
export class Answer {
  constructor(places) {
    this.places = places;
    this.choices = new Map();
    this.kept = "";
    this.events = 0;
    places.text.replaceChildren();
    places.wire.textContent = "";
    places.text.setAttribute("aria-busy", "true");
  }

  /** Read a response to its end. Throws what fetch throws when it is aborted. */
  async read(response) {
    const started = performance.now();
    const first = `${response.status} ${response.statusText}`.trim();
    const ignored = response.headers.get("X-Ignored-Parameters");
    this.status = () => {
      const seconds = ((performance.now() - started) / 1000).toFixed(2);
      const events = this.events ? `, ${this.events} events` : "";
      return `${first}, ${seconds} s${events}${ignored ? `; ignored: ${ignored}` : ""}`;
    };
    this.places.status.textContent = first;
    if ((response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
      for await (const data of eventsOf(response.body)) this.event(data);
    } else {
      this.whole(await response.text());
    }
    this.end(this.status());
  }

  /** The answer is over, or was broken off. */
  end(said) {
    this.places.status.textContent = said;
    this.places.text.removeAttribute("aria-busy");
  }

  event(data) {
    this.events += 1;
    this.keep(`data: ${data}\n\n`);
    if (data === "[DONE]") return;
    const event = read(data);
    if (event?.error) this.failure(event.error.message ?? String(event.error));
    for (const choice of event?.choices ?? []) this.choice(choice, choice.delta ?? choice);
    this.places.status.textContent = this.status();
  }

  whole(text) {
    const answer = read(text);
    this.keep(answer === undefined ? text : print(parse(text), 2));
    if (answer?.error) this.failure(answer.error.message ?? String(answer.error));
    for (const choice of answer?.choices ?? []) this.choice(choice, choice.message ?? choice);
    if (!answer?.error && !answer?.choices) this.places.text.append(make("pre", { class: "code" }, this.kept));
  }

  choice(choice, said) {
    const index = String(choice.index);
    if (!this.choices.has(index)) {
      const shown = {
        thinking: make("p", { class: "thinking" }),
        text: make("p", { class: "said" }),
        calls: make("pre", { class: "code calls" }),
        ended: make("p", { class: "hint" }),
      };
      const title = make("h4", {}, `Choice ${index}`);
      this.places.text.append(
        make("div", { class: "choice" }, title, shown.thinking, shown.text, shown.calls, shown.ended),
      );
      this.choices.set(index, shown);
    }
    const shown = this.choices.get(index);
    if (said.reasoning_content) shown.thinking.append(said.reasoning_content);
    const text = said.content ?? said.text;
    if (text) shown.text.append(text);
    if (said.tool_calls?.length) shown.calls.append(`${said.tool_calls.map((call) => print(call)).join("\n")}\n`);
    if (choice.finish_reason) shown.ended.textContent = `ended: ${choice.finish_reason}`;
  }

  failure(message) {
    this.places.text.append(make("p", { class: "fault" }, message));
  }

  keep(text) {
    if (this.kept.length >= MOST_WIRE) return;
    this.kept += text;
    const cut = this.kept.length >= MOST_WIRE ? "\n... more came than is kept here" : "";
    this.places.wire.append(text, cut);
  }
}

function read(text) {
  try {
    return plain(parse(text));
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}
