// Reads a stream of server-sent events as it comes.

/** The data of each event of a response's body; line ends may be LF, CRLF or CR. */
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest = (rest + (value ?? "")).replace(/\r\n|\r(?!$)/g, "\n");
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = dataOf(part);
      if (data !== null) yield data;
    }
    if (done) return;
  }
}

function dataOf(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : null;
}
