import type { Defects } from "./defect.ts";

/** Of two generations of one process that write at once. */
export const generationDefects: Defects = {
  // With the drain or the fence alone, the former one writes nothing.
  "runs the next generation beside the former one": {
    file: "host/generation/report/states.ts",
    from: '{ from: "running", on: "prepared", to: "draining", ...held, effects: ["adopt", "remember", "drain"] }',
    to: '{ from: "running", on: "prepared", to: "running", ...none, effects: ["adopt", "remember", "start"] }',
    needs: ["retag", "createService"],
    kept: "a Service is created after a reload",
  },
};
