import { expect, test } from "bun:test";

import { readCommand } from "../../../host/cli/command.ts";

async function refusalOf(...argv: readonly string[]) {
  let stderr = "";
  const surroundings = {
    environment: {},
    width: 100,
    stdout: () => undefined,
    stderr: (text: string) => void (stderr += text),
  };
  expect(await readCommand(argv, surroundings)).toEqual({ status: 1 });
  return stderr;
}

test("unknown controllers, an unknown cloud and values out of range are reported beside flags that cannot be read", async () => {
  const stderr = await refusalOf("--v=x", "--nope", "--controllers=foo", "--cloud-provider=gce", "--secure-port=99999");
  expect(stderr).toStartWith("Error: 5 problems:\n");
  for (const problem of [
    'invalid argument "x" for "-v, --v" flag',
    "unknown flag: --nope",
    '--controllers: "foo" is not in the list of known controllers; known are',
    '--cloud-provider "gce" is not known; known are azure',
    "--secure-port must be between 0 and 65535, got 99999",
  ])
    expect(stderr).toContain(problem);
});

test("a flag of a plugin is not called unknown where a folder of plugins cannot be read, so that none is loaded", async () => {
  const stderr = await refusalOf(
    "--plugin-dir=/nope",
    "--cloud-node-lifecycle-controller-concurrent-checks=8",
    "--v=x",
  );
  expect(stderr).toStartWith("Error: 2 problems:\n");
  expect(stderr).toContain("--plugin-dir=/nope: the folder cannot be read");
  expect(stderr).toContain('invalid argument "x" for "-v, --v" flag');
});

test("a flag that cannot be read is not reported twice, nor are flags that it leaves out", async () => {
  const stderr = await refusalOf("--secure-port=none");
  expect(stderr).toStartWith('Error: invalid argument "none" for "--secure-port" flag');
  expect(stderr).not.toContain("--cloud-config");
});

test("a misspelled controller or cloud is reported with the name that was probably meant", async () => {
  const stderr = await refusalOf("--controllers=*,-cloud-nod", "--cloud-provider=Azure", "--cloud-config=none");
  expect(stderr).toContain('"cloud-nod" is not in the list of known controllers (did you mean cloud-node?)');
  expect(stderr).toContain('--cloud-provider "Azure" is not known (did you mean azure?)');
});
