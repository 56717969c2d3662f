import { bad, good } from "../values/parsed.ts";
import { didYouMean } from "../values/suggestion.ts";
import { parseBool } from "../values/values.ts";
import type { FlagType } from "./flag.ts";

type Stage = "ALPHA" | "BETA" | "GA" | "DEPRECATED";

interface FeatureGate {
  readonly stage: Stage;
  readonly default: boolean;
  /** It can only be set to its default. */
  readonly locked?: boolean;
  /** The effect in this program; a gate without one is accepted so that manifests need no change. */
  readonly effect?: string;
  /** Why it has none. */
  readonly noEffect?: string;
}

const gate = (stage: Stage, byDefault: boolean, effect?: string): FeatureGate =>
  effect === undefined ? { stage, default: byDefault } : { stage, default: byDefault, effect };
const locked = (stage: Stage, byDefault: boolean): FeatureGate => ({ stage, default: byDefault, locked: true });

/**
 * All gates known to one of the Go binaries, as of Kubernetes 1.36 and 1.37, with the stage of the newest version that has
 * them; one is locked where no version lets it be changed. Most belong to the API server library that they link.
 */
export const featureGates: Readonly<Record<string, FeatureGate>> = {
  AllAlpha: gate("ALPHA", false, "sets every alpha gate that is not set by name"),
  AllBeta: gate("BETA", false, "sets every beta gate that is not set by name"),
  CloudControllerManagerWatchBasedRoutesReconciliation: gate(
    "ALPHA",
    false,
    "the route controller reconciles on node events and every five minutes, not every --route-reconciliation-period",
  ),
  CloudControllerManagerWebhook: gate("ALPHA", false, "serves the admission webhooks that --webhooks enables"),
  ControllerManagerReleaseLeaderElectionLockOnExit: gate("ALPHA", false),
  UnauthenticatedHTTP2DOSMitigation: gate("BETA", true, "closes HTTP/2 connections of unauthenticated clients"),
  RemoteRequestHeaderUID: gate("BETA", true, "reads the user's UID from the request headers of a trusted proxy"),
  AllowParsingUserUIDFromCertAuth: gate("BETA", true, "reads the user's UID from the client certificate"),
  ComponentFlagz: gate("BETA", true, "serves /flagz"),
  ComponentStatusz: gate("BETA", true, "serves /statusz"),
  CoordinatedLeaderElection: {
    ...gate("BETA", false),
    noEffect: "leaders are elected by this program's own Lease alone, on every API server",
  },
  NativeHistograms: gate("BETA", true),
  ContextualLogging: gate("BETA", true),
  LoggingAlphaOptions: gate("ALPHA", false),
  LoggingBetaOptions: gate("BETA", true),
  APIResponseCompression: gate("BETA", true),
  APIServerIdentity: gate("BETA", true),
  APIServerTracing: locked("GA", true),
  APIServerWebhookAuthenticationToken: gate("ALPHA", false),
  APIServingWithRoutine: gate("ALPHA", false),
  AggregatedDiscoveryRemoveBetaType: locked("DEPRECATED", true),
  AllowUnsafeMalformedObjectDeletion: gate("BETA", true),
  AnonymousAuthConfigurableEndpoints: locked("GA", true),
  AuthorizeWithSelectors: locked("GA", true),
  BtreeWatchCache: locked("GA", true),
  CBORServingAndStorage: gate("ALPHA", false),
  ConcurrentWatchObjectDecode: gate("BETA", true),
  ConsistentListFromCache: locked("GA", true),
  ConsistentListFromCacheSkipTimeoutFallback: gate("ALPHA", false),
  ConstrainedImpersonation: gate("BETA", true),
  DeclarativeValidation: locked("GA", true),
  DeclarativeValidationBeta: gate("BETA", true),
  DeclarativeValidationTakeover: gate("DEPRECATED", false),
  DetectCacheInconsistency: gate("BETA", true),
  EtcdRangeStream: gate("BETA", true),
  ExcludeAdmissionWebhookVirtualResources: gate("BETA", true),
  KMSv1: gate("DEPRECATED", false),
  ListFromCacheSnapshot: gate("BETA", true),
  ManifestBasedAdmissionControlConfig: gate("BETA", true),
  MutatingAdmissionPolicy: gate("GA", true),
  OpenAPIEnums: gate("BETA", true),
  ResilientWatchCacheInitialization: locked("GA", true),
  RetryGenerateName: locked("GA", true),
  SeparateCacheWatchRPC: gate("DEPRECATED", false),
  ShardedListAndWatch: gate("ALPHA", false),
  SizeBasedListCostEstimate: gate("BETA", true),
  StorageVersionAPI: gate("ALPHA", false),
  StorageVersionHash: gate("BETA", true),
  StreamingCollectionEncodingToJSON: locked("GA", true),
  StreamingCollectionEncodingToProtobuf: locked("GA", true),
  StructuredAuthenticationConfiguration: locked("GA", true),
  StructuredAuthenticationConfigurationEgressSelector: gate("BETA", true),
  StructuredAuthenticationConfigurationJWKSMetrics: gate("BETA", true),
  TokenRequestServiceAccountUIDValidation: gate("BETA", true),
  UnknownVersionInteroperabilityProxy: gate("BETA", true),
  WatchCacheInitializationPostStartHook: gate("GA", true),
  WatchList: gate("BETA", true),
  WatchListCompression: gate("BETA", true),
  WebhookRoundTripLoadBalancing: gate("BETA", true),
};

/** The gates set on the command line, by name. */
type GateSettings = Readonly<Record<string, boolean>>;

/** `Name=bool,…`; occurrences are merged, and the last setting of a gate applies. */
export const gates: FlagType<GateSettings> = {
  word: "mapStringBool",
  parse(text, soFar) {
    const items = text
      .split(",")
      .filter((part) => part.trim() !== "")
      .map(settingOf);
    const problems = new Set(items.flatMap(settingProblems));
    if (problems.size > 0) return bad([...problems].join("; "));
    return good({ ...soFar, ...Object.fromEntries(items.map(({ name, on }) => [name, on === true])) });
  },
  format: (value) =>
    Object.entries(value)
      .map(([name, on]) => `${name}=${on}`)
      .toSorted()
      .join(","),
  is: (value): value is GateSettings =>
    typeof value === "object" && value !== null && Object.values(value).every((on) => typeof on === "boolean"),
};

interface Setting {
  readonly name: string;
  /** Undefined without `=`. */
  readonly text: string | undefined;
  /** Undefined for a text that is not a boolean. */
  readonly on: boolean | undefined;
}

function settingOf(item: string): Setting {
  const [name = "", ...rest] = item.split("=");
  const text = rest.length === 0 ? undefined : rest.join("=").trim();
  const parsed = parseBool(text ?? "");
  return { name: name.trim(), text, on: parsed.ok ? parsed.value : undefined };
}

function settingProblems({ name, text, on }: Setting): readonly string[] {
  if (name === "") return [`=${text} needs the name of a feature gate before the =`];
  if (text === undefined) return [`${name} needs a value: ${name}=true or ${name}=false`];
  const known = Object.hasOwn(featureGates, name) ? featureGates[name] : undefined;
  return [
    ...(known === undefined ? [`unknown feature gate: ${name}${didYouMean(name, Object.keys(featureGates), "")}`] : []),
    ...(on === undefined ? [`${name}=${text} must be true or false`] : []),
    ...(known?.locked === true && on === !known.default
      ? [`the feature gate ${name} is locked to ${known.default}`]
      : []),
  ];
}

/** True if a gate is enabled under these settings; undefined for an unknown gate. */
export function gateEnabled(name: string, settings: GateSettings): boolean | undefined {
  const known = Object.hasOwn(featureGates, name) ? featureGates[name] : undefined;
  if (known === undefined) return undefined;
  if (Object.hasOwn(settings, name)) return settings[name];
  const wholeStage =
    known.stage === "ALPHA" ? settings.AllAlpha : known.stage === "BETA" ? settings.AllBeta : undefined;
  return wholeStage ?? known.default;
}

/** Warning about gates that have no effect here or are about to be removed. */
export function gateNotice(settings: GateSettings): string | undefined {
  const idle = Object.keys(settings).filter((name) => featureGates[name]?.effect === undefined);
  const reasons = idle.flatMap((name) => featureGates[name]?.noEffect ?? []);
  const why = reasons.length === 0 ? "" : `: ${reasons.join(", ")}`;
  const leaving = Object.keys(settings).filter((name) => /GA|DEPRECATED/.test(featureGates[name]?.stage ?? ""));
  const parts = [
    ...(idle.length === 0 ? [] : [`sets ${idle.join(", ")}, which has no effect in this program${why}`]),
    ...(leaving.length === 0 ? [] : [`sets ${leaving.join(", ")}, which will be removed in a future release`]),
  ];
  return parts.length === 0 ? undefined : parts.join("; ");
}
