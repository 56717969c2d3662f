import { CodedError, type CompletedConfig, type ComponentConfig } from "cloud-controller-host/sdk";

import { gateEnabled } from "../flags/feature-gates.ts";
import type { Options } from "../flags/options.ts";
import { nodeMaskSizes } from "./cidrs.ts";

/**
 * The config passed to controller constructors, with placeholders resolved: no status workers means as many as node
 * workers, a mask size of 0 means the family's default. `options.controllers` is expected to hold
 * canonical names (`resolveControllers`).
 */
export function complete(options: Options): Omit<CompletedConfig, "own"> {
  return {
    componentConfig: componentConfig(options),
    featureEnabled(gate) {
      const enabled = gateEnabled(gate, options.featureGates);
      if (enabled === undefined) throw new CodedError("InvalidFlags", `unknown feature gate "${gate}"`);
      return enabled;
    },
  };
}

/** Workers that update node addresses: as many as initialize nodes, unless set by the flag. */
export const statusWorkers = (options: Options): number =>
  options.concurrentNodeStatusUpdates === 0 ? options.concurrentNodeSyncs : options.concurrentNodeStatusUpdates;

function componentConfig(options: Options): ComponentConfig {
  const masks = nodeMaskSizes(options);
  return {
    generic: {
      minResyncPeriodMs: options.minResyncPeriod,
      controllerStartIntervalMs: options.controllerStartInterval,
      controllers: options.controllers,
    },
    kubeCloudShared: {
      cloudProvider: options.cloudProvider,
      useServiceAccountCredentials: options.useServiceAccountCredentials,
      allowUntaggedCloud: options.allowUntaggedCloud,
      routeReconciliationPeriodMs: options.routeReconciliationPeriod,
      nodeMonitorPeriodMs: options.nodeMonitorPeriod,
      clusterName: options.clusterName,
      clusterCIDR: options.clusterCidr,
      allocateNodeCIDRs: options.allocateNodeCidrs,
      cidrAllocatorType: options.cidrAllocatorType,
      configureCloudRoutes: options.configureCloudRoutes,
    },
    nodeController: {
      concurrentNodeSyncs: options.concurrentNodeSyncs,
      concurrentNodeStatusUpdates: statusWorkers(options),
    },
    serviceController: {
      concurrentServiceSyncs: options.concurrentServiceSyncs,
      loadBalancerClass: options.loadBalancerClass,
      serviceSelector: options.serviceSelector,
    },
    nodeIPAMController: {
      serviceClusterIPRange: options.serviceClusterIpRange,
      nodeCIDRMaskSizeIPv4: masks.ipv4,
      nodeCIDRMaskSizeIPv6: masks.ipv6,
    },
    nodeStatusUpdateFrequencyMs: options.nodeStatusUpdateFrequency,
  };
}
