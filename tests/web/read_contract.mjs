// Reads an OpenAPI document with the tools that clients' teams use; prints what each made of it, as JSON.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import postman from "openapi-to-postmanv2";

const path = process.argv[2];
const text = readFileSync(path, "utf8");

const types = astToString(await openapiTS(text));

const collection = await new Promise((resolve, reject) => {
  postman.convert({ type: "string", data: text }, {}, (error, made) => (error ? reject(error) : resolve(made)));
});
const requests = (items) => items.flatMap((item) => (item.item ? requests(item.item) : [item.name]));

const lint = spawnSync("node_modules/.bin/redocly", ["lint", path, "--format=json"], { encoding: "utf8" });
const problems = JSON.parse(lint.stdout).problems.map((found) => `${found.severity} ${found.ruleId}`);

console.log(
  JSON.stringify({
    types: [...types.matchAll(/^ {4}(\w+): \{$/gm)].map((found) => found[1]),
    postman: collection.result ? requests(collection.output[0].data.item) : collection.reason,
    redocly: problems,
  }),
);
