import { expect, test } from "bun:test";

import { type ControllerPlugin, defineController, skipped, Type } from "cloud-controller-host/sdk";

import type { LoadedPlugins } from "../../../../host/generation/plugins/load.ts";
import { bind } from "../../../../host/generation/prepare/bind.ts";
import { main, SlotRig } from "../slot-rig.ts";

const config = { source: "cloud.yaml", document: {}, disabled: false, hash: "hash" };

/** The controller with options that are refused, for each of these reasons. */
const refusing = (controller: ControllerPlugin, ...problems: readonly string[]): ControllerPlugin => ({
  ...controller,
  bind: () => ({ ok: false, problems }),
});

/** The plugins with a cloud that refuses the cloud config. */
const refusingConfig = (plugins: LoadedPlugins, problem: string): LoadedPlugins => ({
  ...plugins,
  clouds: plugins.clouds.map((cloud) => ({ ...cloud, bind: () => ({ ok: false, problems: [problem] }) })),
});

const refusal = (...problems: readonly string[]): unknown =>
  expect.objectContaining({ message: expect.stringContaining("the configuration is refused"), problems });

test("a configuration is refused where several locks are for one of the controllers", async () => {
  await using rig = await SlotRig.start();
  const problem = "both first and second name the controller fine-controller";
  const locks = { ...rig.scope.locks, problems: () => [problem] };
  const plugins = rig.plugins([rig.controller("fine-controller", main)]);
  expect(() => bind({ ...rig.scope, locks }, { plugins, config })).toThrow(refusal(problem));
});

test("a configuration is refused with the problems of the cloud config and of every controller's options at once", async () => {
  await using rig = await SlotRig.start();
  const [fine, one, other] = ["fine", "one", "other"].map((name) => rig.controller(`${name}-controller`, main));
  if (fine === undefined || one === undefined || other === undefined) throw new Error("they were not made");
  const plugins = rig.plugins([fine, refusing(one, "--a: too long", "--b: unknown"), refusing(other, "--c: empty")]);
  const ofOptions = [
    "options of one-controller: --a: too long",
    "options of one-controller: --b: unknown",
    "options of other-controller: --c: empty",
  ];
  expect(() => bind(rig.scope, { plugins, config })).toThrow(refusal(...ofOptions));
  const worse = refusingConfig(plugins, "tenantId: missing");
  const ofHost = "cloud.yaml: disableCloudProvider must be true or false without quotes";
  expect(() => bind(rig.scope, { plugins: worse, config: { ...config, problems: [ofHost] } })).toThrow(
    refusal(ofHost, "cloud.yaml: tenantId: missing", ...ofOptions),
  );
});

test("a problem of an option has the name of its flag", async () => {
  await using rig = await SlotRig.start();
  const configSchema = Type.Object(
    { maxRetries: Type.Integer(), mode: Type.Union([Type.Literal("fast"), Type.Literal("slow")]) },
    { additionalProperties: false },
  );
  const plugin = defineController({ name: "odd-controller", configSchema, construct: () => () => skipped(main) });
  const own = () => new Map([["odd-controller", { maxRetries: "many", mode: "medium" }]]);
  const scope = { ...rig.scope, settings: { ...rig.scope.settings, own } };
  expect(() => bind(scope, { plugins: rig.plugins([plugin]), config })).toThrow(
    refusal(
      '--odd-controller-max-retries: expected integer, got "many"',
      '--odd-controller-mode: expected "fast" or "slow", got "medium"',
    ),
  );
});

test("a refused config has its warnings in the log: a misspelled key is why another one is missing", async () => {
  await using rig = await SlotRig.start();
  const plugins = rig.plugins([rig.controller("fine-controller", main)]);
  const refused = { ok: false, problems: ["location is required"], warnings: ["unknown keys: loction"] } as const;
  const clouds = plugins.clouds.map((cloud) => ({ ...cloud, bind: () => refused }));
  expect(() => bind(rig.scope, { plugins: { ...plugins, clouds }, config })).toThrow(
    refusal("cloud.yaml: location is required"),
  );
  expect(rig.lines.join()).toContain("cloud.yaml: unknown keys: loction");
});
