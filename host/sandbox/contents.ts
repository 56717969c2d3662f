import { mkdir } from "node:fs/promises";

import { type CloudPlugin, type CloudSimulator, CodedError, kinds, messageOf } from "cloud-controller-host/sdk";
import type { SandboxApiServer } from "cloud-controller-host/sdk/testing/api-server";

import type { Bundle } from "../bundle/bundle.ts";

/** The flags under which a bundle was written. */
export const flagsOfBundle = ({ cloudProvider, flags }: Bundle): readonly string[] => [
  `--cloud-provider=${cloudProvider}`,
  ...flags,
];

/** Starts the cloud's simulator, with the cloud of the bundle if there is one. Undefined where the cloud has none. */
export async function simulate(
  cloud: Pick<CloudPlugin, "simulate"> | undefined,
  directory: string,
  bundle?: Bundle,
): Promise<CloudSimulator | undefined> {
  if (cloud?.simulate === undefined) return undefined;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (bundle === undefined) return cloud.simulate({ directory, shortCaches: true });
  const { cloudConfig, resources, anonymized } = bundle;
  return cloud.simulate({ directory, contents: { cloudConfig, resources, anonymized } });
}

/** Creates the objects of a bundle. Throws with the object that the API server refuses: the bundle was edited. */
export function loadObjects(api: SandboxApiServer, bundle: Bundle): void {
  api.serve(bundle.kinds);
  // Namespaces first: no other object can be created without its own.
  const inOrder = bundle.kinds.toSorted((one, other) => rank(one) - rank(other));
  for (const { objects, ...kind } of inOrder)
    for (const object of objects) {
      const { namespace, deletionTimestamp, resourceVersion: _version, ...metadata } = object.metadata;
      if (namespace !== undefined) assureNamespace(api, namespace);
      const name = { name: metadata.name, ...(namespace !== undefined && { namespace }) };
      if (api.get(kind, name) !== undefined) continue;
      try {
        api.create(kind, { ...withoutClusterIPs(object), metadata: { ...metadata, ...name } });
        if (deletionTimestamp !== undefined) api.delete(kind, name);
      } catch (error) {
        throw new CodedError(
          "InvalidBundle",
          `the bundle's ${kind.kind} ${metadata.name} is refused: ${messageOf(error)}`,
        );
      }
    }
}

/** Cluster IPs are of the cluster's own range, and of no interest to a cloud. */
function withoutClusterIPs(object: object): object {
  const { spec, ...rest }: { readonly spec?: unknown } = { spec: undefined, ...object };
  if (typeof spec !== "object" || spec === null) return object;
  const { clusterIP, clusterIPs, ...kept }: { readonly clusterIP?: unknown; readonly clusterIPs?: unknown } = {
    clusterIP: undefined,
    ...spec,
  };
  return clusterIP === "None" || clusterIPs === undefined ? object : { ...rest, spec: kept };
}

const rank = ({ plural }: { readonly plural: string }): number => (plural === kinds.Namespace.plural ? 0 : 1);

function assureNamespace(api: SandboxApiServer, name: string): void {
  if (api.get(kinds.Namespace, { name }) === undefined) api.create(kinds.Namespace, { metadata: { name } });
}
