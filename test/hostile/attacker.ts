/** Runs one attack in a process of its own, so that it does not slow down the client that measures; prints its result. */
import { attacks, type Target } from "./attacks.ts";

const [name = "", target = "{}"] = process.argv.slice(2);
const attack = Object.entries(attacks).find(([known]) => known === name)?.[1];
if (attack === undefined) throw new Error(`no attack named ${name}`);
const parsed: Target = JSON.parse(target);
const connections = await attack(parsed);
process.stdout.write(JSON.stringify(connections), () => process.exit(0));
