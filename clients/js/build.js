// Builds dist/: for records and for regions an ES module and a classic script (for pages opened from disk), and the types.
import { execFileSync } from "node:child_process";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const out = process.argv[2] ?? "dist";
const folder = fileURLToPath(new URL(".", import.meta.url));
// names inside the package that no caller sees, shortened; none of them is a property of the platform
const inner =
  /^(background|columns|compare|contents|cosines|dimension|drawn|floats|forEachNear|graph|isBroken|isFarther|isIsolated|labels|lengths|localFloats|longest|nCompared|nComponents|nExact|nIsolated|nOutputs|nRecords|nRest|nShared|nStored|neighbours|optionalMetadata|outputPoints|outputRows|paths|promises|required|rowOf|shapes|sharedFloats|starts|steps|stored|tensors|whole|widened|checkedPoint|sentence|metadata|points|around|begin|first|second|below|between|scale|shared|weights|table|power|known|places|radius|fits|unknown|offset|dtype|shape|squared|offsets|kinds|optional|state|words|rest|block|even|sure|epsilons|sizes|label|found|width|order|cells|header|margin|report|unmet|update|hex|error|outer|node|place|bytes|kind)$/;
const common = { mangleProps: inner, absWorkingDir: folder, bundle: true, minify: true, target: "es2022", format: "esm" };
rmSync(new URL(`${out}/types`, import.meta.url), { recursive: true, force: true });
for (const [source, name, global] of [["index", "metricdp", "metricdp"], ["plane", "metricdp.plane", "metricdpPlane"]]) {
  const path = (end) => new URL(`${out}/${name}${end}`, import.meta.url);
  await build({ ...common, entryPoints: [`src/${source}.ts`], outfile: `${out}/${name}.js` });
  // the same code as a script that sets one global: pages opened from disk cannot import modules
  const [, body, names] = /^([^]*)export\{([^}]*)\};\s*$/.exec(readFileSync(path(".js"), "utf8"));
  const object = names.replace(/(\w+) as (\w+)/g, "$2:$1");
  writeFileSync(path(".classic.js"), `var ${global}=(()=>{"use strict";${body}return{${object}}})();\n`);
  for (const end of [".js", ".classic.js"]) console.log(`${out}/${name}${end}: ${statSync(path(end)).size} bytes`);
}
execFileSync("npx", ["tsc", "--outDir", `${out}/types`], { cwd: folder, stdio: "inherit" });
