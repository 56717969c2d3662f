import type { Defects } from "./defect.ts";

const azure = "plugins/azure-cloud";

/** Of VMs that have network interfaces of their own: standalone ones, and those of flexible scale sets. */
export const virtualMachineDefects: Defects = {
  "looks for a VM of a flexible scale set by its own name": {
    file: `${azure}/instances/virtual-machine-record.ts`,
    from: "scaleSetId === undefined ? name : (vm.osProfile?.computerName ?? name)",
    to: "name",
    needs: ["joinNodes"],
    kept: "VMs of three kinds",
  },
  "puts no network interface into a pool": {
    file: `${azure}/load-balancer/pools/membership.ts`,
    from: "if (primary !== undefined) yield",
    to: "if (primary === undefined) yield",
    needs: ["createService"],
    kept: "VMs of three kinds",
  },
  "leaves the network interface of a node that is gone in its pools": {
    file: `${azure}/load-balancer/pools/member-jobs.ts`,
    from: "if (owner !== undefined) yield",
    to: 'if (owner?.kind === "instance") yield',
    needs: ["retireNode"],
    kept: "a standalone VM is retired",
  },
  "never writes a network interface whose last write has failed": {
    file: `${azure}/load-balancer/pools/interface-pools.ts`,
    from: "const isDue = !unrepaired.has(key);",
    to: "const isDue = false;",
    needs: ["failOperations", "excludeNode"],
    kept: "a standalone VM serves again whose network interface has failed to leave its pool",
  },
};
