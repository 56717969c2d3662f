import { controllerNames, type ControllerPlugin } from "cloud-controller-host/sdk";

import { gateEnabled } from "../flags/feature-gates.ts";
import { flagRows } from "../flags/flags.ts";
import { optionName, type Options } from "../flags/options.ts";
import { type ControllerName, isControllerEnabled, partsOf, resolveControllers } from "../values/controller-list.ts";
import { didYouMean } from "../values/suggestion.ts";
import { leaseTimingProblems } from "./election-timings.ts";
import { shardProblems } from "./shard.ts";
import { ipamProblems, routeProblems, serviceCidrProblems } from "./validate-network.ts";

/** The available plugins. */
export interface Offer {
  readonly controllers: readonly (ControllerName & Partial<Pick<ControllerPlugin, "enabledByDefault">>)[];
  /** Names of the cloud plugins. */
  readonly clouds: readonly string[];
  /** Names of the webhook plugins. */
  readonly webhooks?: readonly string[];
  /** Plugins were left out because they failed to load: a controller that is not known may be one of theirs. */
  readonly incomplete?: boolean;
}

/**
 * The problems of single options. Options that could not be read have their defaults, which are valid: this applies to a
 * command line that is refused, too.
 */
export const validateEach = (options: Options, { controllers, clouds, incomplete }: Offer): readonly string[] => [
  ...flagRows.flatMap(({ name, flag }) => {
    const problem = flag.problemOf(Reflect.get(options, optionName(name)));
    return problem === undefined ? [] : [`--${name} ${problem}`];
  }),
  ...(incomplete === true ? [] : controllerListProblems(options.controllers, controllers)),
  ...cloudNameProblems(options, clouds),
];

/**
 * All problems of the options that can be detected before startup, each with its flag, the value and what to do. Files
 * are not opened here.
 */
export function validate(options: Options, offer: Offer): readonly string[] {
  const enabled = (name: string): boolean =>
    offer.controllers.some(
      (controller) =>
        controller.name === name &&
        isControllerEnabled(
          name,
          controller.enabledByDefault ?? true,
          resolveControllers(options.controllers, offer.controllers),
        ),
    );
  return [
    ...validateEach(options, offer),
    ...electionProblems(options),
    ...shardProblems(options),
    ...cloudConfigProblems(options),
    ...servingProblems(options),
    ...(offer.incomplete === true ? [] : webhookProblems(options, offer.webhooks ?? [])),
    ...(options.configureCloudRoutes && enabled(controllerNames.nodeRoute) ? routeProblems(options) : []),
    ...(options.allocateNodeCidrs && enabled(controllerNames.nodeIPAM) ? ipamProblems(options) : []),
    ...serviceCidrProblems(options),
  ];
}

/** A single problem as it is; several with their number, one per line, without duplicates. */
export function formatProblems(problems: readonly string[]): string {
  const distinct = [...new Set(problems)];
  if (distinct.length === 1) return distinct.join("");
  return [`${distinct.length} problems:`, ...distinct].join("\n  - ");
}

/** Names in a `--controllers` list that no available controller has. */
function controllerListProblems(list: readonly string[], known: readonly ControllerName[]): readonly string[] {
  const names = new Set(known.flatMap(({ name, aliases }) => [name, ...aliases]));
  const all = known.map(({ name }) => name).join(", ");
  return list
    .filter((item) => item !== "*")
    .map((item) => partsOf(item)[1])
    .filter((name) => !names.has(name))
    .map(
      (name) =>
        `--controllers: "${name}" is not in the list of known controllers${didYouMean(name, [...names], "")}; known are ${all}`,
    );
}

function electionProblems(options: Options): readonly string[] {
  if (!options.leaderElect) return [];
  return [
    ...broken([
      [
        options.leaderElectResourceLock !== "leases",
        `--leader-elect-resource-lock "leases" is the only supported lock, got "${options.leaderElectResourceLock}"`,
      ],
      [
        options.leaderElectResourceName === "",
        "--leader-elect-resource-name cannot be empty; set it to the name of the Lease",
      ],
      [
        options.leaderElectResourceNamespace === "",
        "--leader-elect-resource-namespace cannot be empty; set it to the namespace of the Lease",
      ],
    ]),
    ...leaseTimingProblems({
      leaseDurationMs: options.leaderElectLeaseDuration,
      renewDeadlineMs: options.leaderElectRenewDeadline,
      retryPeriodMs: options.leaderElectRetryPeriod,
    }),
  ];
}

const broken = (rules: readonly (readonly [broken: boolean, problem: string])[]): readonly string[] =>
  rules.flatMap(([isBroken, problem]) => (isBroken ? [problem] : []));

const cloudNameProblems = ({ cloudProvider: name }: Options, clouds: readonly string[]): readonly string[] =>
  name === "" || clouds.includes(name)
    ? []
    : [
        `--cloud-provider "${name}" is not known${didYouMean(name.toLowerCase(), clouds, "")}; ${clouds.length === 0 ? "no cloud plugin is available" : `known are ${clouds.join(", ")}`}`,
      ];

function cloudConfigProblems(options: Options): readonly string[] {
  const { enableDynamicReloading: reloading } = options;
  const fromSecret = reloading && options.cloudConfig === "";
  const needed = "cannot be empty when the cloud config is read from a Secret; set it, or set --cloud-config";
  return broken([
    [
      !reloading && options.cloudConfig === "",
      "--cloud-config cannot be empty when --enable-dynamic-reloading is not set to true; set it to the file with the cloud configuration",
    ],
    [fromSecret && options.cloudConfigSecretName === "", `--cloud-config-secret-name ${needed}`],
    [fromSecret && options.cloudConfigSecretNamespace === "", `--cloud-config-secret-namespace ${needed}`],
    [fromSecret && options.cloudConfigKey === "", `--cloud-config-key ${needed}`],
  ]);
}

function webhookProblems({ webhooks, webhookSecurePort }: Options, known: readonly string[]): readonly string[] {
  const unknown = webhooks
    .map((item) => item.replace(/^-/u, ""))
    .filter((name) => name !== "*" && !known.includes(name));
  const enabled = known.some((name) => isControllerEnabled(name, true, webhooks));
  return [
    ...unknown.map(
      (name) =>
        `--webhooks: "${name}" is not known; ${known.length === 0 ? "no webhook plugin is available" : `known are ${known.join(", ")}`}`,
    ),
    ...broken([
      [
        enabled && webhookSecurePort === 0,
        "--webhook-secure-port cannot be 0 when a webhook is enabled; set a port, or remove --webhooks",
      ],
    ]),
  ];
}

function servingProblems(options: Options): readonly string[] {
  const { tlsCertFile, tlsPrivateKeyFile, webhookTlsCertFile, webhookTlsPrivateKeyFile, featureGates } = options;
  const pairs = [
    { prefix: "--", cert: tlsCertFile, key: tlsPrivateKeyFile },
    { prefix: "--webhook-", cert: webhookTlsCertFile, key: webhookTlsPrivateKeyFile },
  ];
  return broken([
    ...pairs.flatMap(({ prefix, cert, key }): [boolean, string][] => [
      [cert !== "" && key === "", `${prefix}tls-cert-file "${cert}" requires ${prefix}tls-private-key-file`],
      [cert === "" && key !== "", `${prefix}tls-private-key-file "${key}" requires ${prefix}tls-cert-file`],
    ]),
    [
      options.webhooks.length > 0 &&
        options.webhookSecurePort !== 0 &&
        options.webhookSecurePort === options.securePort,
      `--webhook-secure-port ${options.webhookSecurePort} is also --secure-port; use different ports`,
    ],
    [
      options.requestheaderUidHeaders.length > 0 && gateEnabled("RemoteRequestHeaderUID", featureGates) !== true,
      "--requestheader-uid-headers requires the feature gate RemoteRequestHeaderUID; enable it, or remove the flag",
    ],
  ]);
}
