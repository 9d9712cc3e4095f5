// A headless Chromium that reaches this machine alone, and what went wrong in it.
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const PATIENCE_MS = 120_000;
/** For one step, on a machine that does other things besides. */
const SWITCHES = [
  ...["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
  ...["--disable-sync", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
];

/** Runs `work` with a page. Gives what it gives, and `wrong`: failed requests, requests to elsewhere, script errors. */
export async function withPage(view, work) {
  const executablePath = await chromium.executablePath();
  const browser = await puppeteer.launch({ executablePath, args: SWITCHES, headless: "shell", timeout: PATIENCE_MS });
  try {
    const page = await browser.newPage();
    const wrong = [];
    page.setDefaultTimeout(PATIENCE_MS);
    await page.setViewport({ width: view.width ?? 1280, height: view.height ?? 900 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: view.scheme ?? "light" }]);
    page.on("requestfailed", (request) => {
      const reason = request.failure().errorText;
      if (reason !== "net::ERR_ABORTED") wrong.push(`${request.url()} failed: ${reason}`); // which the page itself did
    });
    page.on("request", (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (protocol.startsWith("http") && hostname !== "127.0.0.1") wrong.push(`asked ${hostname}`);
    });
    page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error" && !message.text().includes("status of 4")) wrong.push(message.text());
    });
    return { ...(await work(page)), wrong };
  } finally {
    await browser.close();
  }
}

/** Ends the script with its result as the last line. */
export function tell(result) {
  console.log(JSON.stringify(result));
}
