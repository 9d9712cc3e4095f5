// Opens the documentation, reads it to its end, and prints all of its text.
import { tell, withPage } from "./browser.mjs";

const [url, width, scheme, picture] = process.argv.slice(2);

tell(
  await withPage({ width: Number(width), scheme }, async (page) => {
    await page.goto(url, { waitUntil: "networkidle0" });
    await page.waitForFunction(() => document.body.innerText.includes("finish_reason"));
    if (picture) await page.screenshot({ path: picture });
    const text = await page.evaluate(async () => {
      // Sections are made when they come into sight; the page grows until all have been.
      const pause = (ms) => new Promise((done) => setTimeout(done, ms));
      const height = () => document.documentElement.scrollHeight;
      for (let y = 0, still = 0; still < 20; y = Math.min(y + 800, height())) {
        window.scrollTo(0, y);
        document.querySelectorAll("details").forEach((details) => (details.open = true));
        await pause(y >= height() ? 100 : 25); // at its end it gets time to grow
        still = y >= height() ? still + 1 : 0;
      }
      return document.body.innerText;
    });
    return { text };
  }),
);
