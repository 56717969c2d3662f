import type { PrivateLinkService } from "@azure/arm-network";

import type { ArmClients } from "../../../arm/clients.ts";
import { describeWrite } from "../../../arm/pipeline/record.ts";
import type { NetworkResources } from "../../../arm/writes/network-resources.ts";
import { withOperationLimit } from "../../../arm/writes/operation-limit.ts";
import { ifMatch } from "../../../arm/writes/resources.ts";
import { OutdatedError } from "../../../arm/writes/write-errors.ts";
import type { Observed } from "../../model/model.ts";
import type { DeletePrivateLinkService, PutSubnet, Write } from "../../model/plan-model.ts";
import { hasSameClaim, inList, isSameExceptEtags } from "./preconditions.ts";

export interface PrivateLinkWriteOptions {
  readonly clients: ArmClients;
  readonly network: NetworkResources;
  readonly signal: AbortSignal;
  readonly forgetSubnet: (name: string) => void;
}

type PutPrivateLink = Extract<Write, { readonly kind: "put-private-link-service" }>;

/** Subnets are not cached for long, but what leads to this write takes minutes: only the one setting is changed. */
export async function putSubnet(
  { resourceGroup, virtualNetwork, name, body }: PutSubnet,
  { clients, signal, forgetSubnet }: PrivateLinkWriteOptions,
): Promise<void> {
  const { privateLinkServiceNetworkPolicies } = body;
  try {
    await withOperationLimit(`update of subnet ${name}`, signal, async (abortSignal) => {
      const current = await clients.network.subnets.get(resourceGroup, virtualNetwork, name, { abortSignal });
      if (current.privateLinkServiceNetworkPolicies === privateLinkServiceNetworkPolicies) return;
      const wanted = { ...current, ...(privateLinkServiceNetworkPolicies && { privateLinkServiceNetworkPolicies }) };
      const options = { abortSignal, requestOptions: { headers: ifMatch(current.etag) } };
      describeWrite(abortSignal, { before: current, after: wanted });
      await clients.network.subnets.createOrUpdate(resourceGroup, virtualNetwork, name, wanted, options);
    });
  } finally {
    forgetSubnet(name);
  }
}

/** Every write of a load balancer changes the etags of its private link services: those known are outdated. */
export async function putPrivateLink(
  { id, body }: PutPrivateLink,
  observed: Observed,
  { network: { privateLinkServices } }: PrivateLinkWriteOptions,
): Promise<void> {
  const planned = inList(observed.privateLinkServices, id);
  const current = planned && (await privateLinkServices.read(id));
  if (planned !== undefined && (current === undefined || !isSameExceptEtags(current, planned)))
    throw new OutdatedError(`${id} has changed`);
  await privateLinkServices.put(id, { ...body, ...(current?.etag !== undefined && { etag: current.etag }) });
}

export async function deletePrivateLink(
  { id, resourceGroup, name, endpointConnections }: DeletePrivateLinkService,
  observed: Observed,
  { clients, network, signal }: PrivateLinkWriteOptions,
): Promise<void> {
  const { privateLinkServices } = clients.vmNetwork;
  const planned = inList(observed.privateLinkServices, id);
  const isAsPlanned = (current: PrivateLinkService): boolean => hasSameClaim(current, planned, endpointConnections);
  if (endpointConnections.length > 0) {
    const current = await network.privateLinkServices.read(id);
    if (current !== undefined && !isAsPlanned(current)) throw new OutdatedError(`${id} has changed`);
  }
  for (const connection of endpointConnections)
    await withOperationLimit(`deletion of endpoint connection ${connection}`, signal, (abortSignal) =>
      privateLinkServices.deletePrivateEndpointConnection(resourceGroup, name, connection, { abortSignal }),
    );
  await network.privateLinkServices.delete(id, planned, isAsPlanned);
}
