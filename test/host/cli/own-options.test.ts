import { describe, expect, test } from "bun:test";

import { takeOwnOptions } from "../../../host/cli/own-options.ts";

const names = { withValue: ["output", "from", "masters"], switches: ["anonymize"] };
const take = (...argv: readonly string[]): object => {
  const { given, rest, problems } = takeOwnOptions(argv, names);
  return { given: Object.fromEntries(given), rest, problems };
};

describe("the own options of a command", () => {
  test("have their value after '=' or as the next argument, and stand anywhere among the flags of the host", () => {
    const flags = ["service", "default/web", "--kubeconfig", "file--output=text", "-v=2"];
    const given = { output: "json", from: "a=b" };
    expect(take("--output=json", ...flags, "--from=a=b")).toEqual({ given, rest: flags, problems: [] });
    expect(take(...flags.slice(0, 2), "--from", "a=b", ...flags.slice(2), "--output", "json")).toEqual({
      given,
      rest: flags,
      problems: [],
    });
  });

  test("have the last value given, and a switch takes no argument", () => {
    expect(take("--output=text", "--anonymize", "--output", "json", "--from=", "--anonymize=false", "x")).toEqual({
      given: { output: "json", from: "" },
      rest: ["x"],
      problems: [],
    });
    expect(take("--anonymize", "x")).toEqual({ given: { anonymize: "" }, rest: ["x"], problems: [] });
  });

  test("are on as a switch alone or with true, off with false, and refused with anything else", () => {
    expect(take("--anonymize=false", "--anonymize=true")).toEqual({ given: { anonymize: "" }, rest: [], problems: [] });
    expect(take("--anonymize=no", "--anonymize=")).toEqual({
      given: {},
      rest: [],
      problems: ["--anonymize=no: must be true or false", "--anonymize=: must be true or false"],
    });
  });

  test("are refused where misspelled or without a value, all at once; flags of the host and of plugins are left", () => {
    const flags = ["--form-controller-workers=1", "--v", "--master=x", "--"];
    expect(take("--outptu=json", ...flags, "--form", "--output")).toEqual({
      given: {},
      rest: flags,
      problems: [
        "unknown option --outptu (did you mean --output?)",
        "unknown option --form (did you mean --from?)",
        "--output: needs a value",
      ],
    });
  });
});
