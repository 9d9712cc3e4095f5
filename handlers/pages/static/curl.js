// The command that sends a request as the page does.

/** A text as one word of a POSIX shell. */
export function quoted(text) {
  return /^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The command. The key itself is not written down: the shell takes it from the variable API_KEY. */
export function curlOf({ method, url, headers, body, streams, keyed }) {
  const words = [
    "curl",
    ...(streams ? ["--no-buffer"] : []),
    ...(method === "GET" || body !== null ? [] : ["-X", method]),
    quoted(url),
  ];
  const lines = [words.join(" ")];
  for (const [name, value] of headers) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (keyed) lines.push('-H "Authorization: Bearer $API_KEY"');
  if (body !== null) lines.push(`--data-raw ${quoted(body)}`);
  return lines.join(" \\\n  ");
}
