import { CodedError, type InstanceMetadata, type Instances, keyOf, type Node } from "cloud-controller-host/sdk";

/**
 * What the cloud says of a node, with a provider ID: the cloud's, else the node's own. Undefined when the cloud has
 * nothing to say now; throws when it cannot be asked or when neither side knows a provider ID.
 */
export async function fetchMetadata(
  instances: Instances,
  node: Node,
  signal: AbortSignal,
): Promise<InstanceMetadata | undefined> {
  const name = keyOf(node);
  try {
    const metadata = await instances.instanceMetadata(node, { signal });
    return metadata === undefined ? undefined : withProviderID(node, metadata);
  } catch (error) {
    throw new CodedError("InstanceMetadata", `failed to get instance metadata for node ${name}`, { cause: error });
  }
}

function withProviderID(node: Node, metadata: InstanceMetadata): InstanceMetadata {
  if (metadata.providerID !== "") return metadata;
  const providerID = node.spec?.providerID ?? "";
  if (providerID === "")
    throw new CodedError("NoProviderID", `cloud provider does not set node provider ID for node ${keyOf(node)}`);
  return { ...metadata, providerID };
}
