/** The public surface of the SDK: what a plugin may use, each name listed. */
export { Type } from "@sinclair/typebox";
export type { Static, TObject, TSchema } from "@sinclair/typebox";

export {
  addressBits,
  type CIDR,
  cidrAround,
  cidrsOverlap,
  containsAddress,
  type IPFamily,
  lastAddress,
  parseCIDR,
  parseClusterCIDRs,
} from "./cidr.ts";
export type {
  Cloud,
  CloudCall,
  CloudFault,
  CloudSimulator,
  Explain,
  Explanation,
  Fact,
  InstanceMetadata,
  InstanceRead,
  Instances,
  LoadBalancers,
  NodeMasks,
  PowerState,
  Route,
  Routes,
  ServiceWarning,
  SimulatedContents,
  SimulateOptions,
  UnrequestedRemovals,
} from "./cloud.ts";
export {
  type Condition,
  type ConditionValue,
  findStatusCondition,
  isStatusConditionTrue,
  removeStatusCondition,
  setStatusCondition,
} from "./conditions.ts";
export { type CompletedConfig, type ComponentConfig, type Decoded, decode } from "./config.ts";
export type {
  Clock,
  CloudContext,
  CloudWrite,
  Confirmations,
  ControllerContext,
  Counter,
  Fence,
  Gauge,
  GenerationContext,
  Histogram,
  LogFields,
  Logger,
  MetricLabels,
  MetricSpec,
  Metrics,
  Shards,
} from "./context.ts";
export { type ErrorCode, errorCodes, errorTable } from "./error-codes.ts";
export {
  ApiError,
  CodedError,
  errorChain,
  FencedError,
  ImplementedElsewhereError,
  InstanceNotFoundError,
  isAborted,
  isAlreadyExists,
  isConflict,
  isNotFound,
  isReplaced,
  isRefusal,
  messageOf,
  recurringMessageOf,
  ProblemsError,
  RefusedError,
  retryAfterOf,
  RetryAfterError,
} from "./errors.ts";
export { type Index, indexBy } from "./indexes.ts";
export {
  apiVersionOf,
  type ConfigMap,
  type DaemonSet,
  defineKind,
  type Deployment,
  type EndpointSlice,
  keyOf,
  type KindRef,
  kinds,
  type KubeEvent,
  type KubeObject,
  type Lease,
  type LoadBalancerStatus,
  type Namespace,
  type Node,
  type NodeAddress,
  type NodeCondition,
  type ObjectMeta,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type PodDisruptionBudget,
  type ReplicaSet,
  type Secret,
  type Service,
  type ServiceAccount,
  type ServicePort,
  type StatefulSet,
  type Taint,
  type Wire,
} from "./kinds.ts";
export type {
  CallOptions,
  CollectionOptions,
  DeleteOptions,
  EventOptions,
  EventRecorder,
  EventSubject,
  GetOptions,
  Informer,
  InformerHandler,
  InformerOptions,
  Informers,
  JSONPatchOperation,
  KubeClient,
  ListOptions,
  ObjectName,
  PatchOptions,
  PatchType,
  ProcessOptions,
  RateLimit,
  Store,
  WorkQueue,
  WorkQueueOptions,
  WriteOptions,
} from "./kube.ts";
export {
  annotationOf,
  annotations,
  finalizers,
  isUninitialized,
  labelOf,
  labels,
  readyStatus,
  taints,
  taintsOf,
} from "./labels.ts";
export { createCooperativeYield, forEachConcurrently, repeat, retryOnConflict, runTogether } from "./loops.ts";
export { controllerAliases, controllerNames, namePattern } from "./names.ts";
export {
  conditionPatch,
  type ConditionState,
  type NodeWriter,
  taintsPatch,
  updateCondition,
  updateTaints,
} from "./node-writes.ts";
export {
  additionalAddressesOpen,
  loadBalancerReady,
  syncFailureIn,
  syncFailureMessage,
} from "./load-balancer-condition.ts";
export type { HeldRemovals, PlannedWrite, Planning, ResourceDocument, WriteInFlight } from "./planning.ts";
export {
  compareResourceVersion,
  controllerOf,
  ensureFinalizer,
  hasFinalizer,
  isBeingDeleted,
  isControlledBy,
  type OwnerReference,
  removeFinalizer,
  withControllerReference,
  withOwnerReference,
} from "./objects.ts";
export {
  type AccessContext,
  type AccessResult,
  type AnnotationHelp,
  type CloudPlugin,
  type CloudSpec,
  defineCloud,
  type Environment,
} from "./cloud-plugin.ts";
export { type Permission, type PermissionVerb, permissionVerbs } from "./permissions.ts";
export {
  type Controller,
  type ControllerInitContext,
  type ControllerInitFuncConstructor,
  type ControllerPlugin,
  type ControllerSpec,
  defineController,
  type InitFunc,
  type InitFuncConstructor,
  type Plugin,
  skipped,
  type Skipped,
} from "./plugin.ts";
export {
  allOf,
  annotationsChanged,
  anyOf,
  filtered,
  generationChanged,
  labelsChanged,
  objectsWhere,
  type Predicate,
} from "./predicates.ts";
export { labelSelectorsOverlap, parseLabelSelector } from "./selectors.ts";
export {
  allowsAll,
  defaultLoadBalancerName,
  loadBalancerSourceRanges,
  needsHealthCheck,
  requestsOnlyLocalTraffic,
  serviceHealthCheck,
} from "./services.ts";
export { editDistance, suggestionFor } from "./suggestion.ts";
export { isObject, timestamp, visible } from "./values.ts";
export { FailingObjects } from "./failing-objects.ts";
export { type KnownWarning, type OperatorWarning, type WarningKind } from "./warning.ts";
export {
  type AdmissionOperation,
  type AdmissionRequest,
  type AdmissionResponse,
  defineWebhook,
  type WebhookContext,
  type WebhookPlugin,
  type WebhookRule,
  type WebhookSpec,
} from "./webhook.ts";
