import type { PublicIPAddress } from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import { sameAddress } from "../../model/addresses.ts";
import type { Family } from "../../model/model.ts";
import { type Subject, wantedAddress, wantedPublicIP } from "../../service/subject.ts";
import { clusterIn, isListed, servicesIn } from "./owners.ts";

type PublicIP = Readonly<PublicIPAddress>;

interface Ownership {
  readonly owned: boolean;
  /** A user created it: it is never tagged and never deleted. */
  readonly userAssigned: boolean;
}

export const familyOfPublicIP = ({ publicIPAddressVersion }: PublicIP): Family =>
  publicIPAddressVersion === "IPv6" ? "IPv6" : "IPv4";

/** Use of the public IP by the Service, and its creator. Source: upstream `serviceOwnsPublicIP`. */
export function ownership(publicIP: PublicIP, subject: Subject, clusterName: string): Ownership {
  const services = servicesIn(publicIP.tags);
  const userAssigned = services.length === 0;
  if (!isListed(services, subject.key)) return { owned: isSelected(publicIP, subject), userAssigned };
  const cluster = clusterIn(publicIP.tags);
  return { owned: cluster === "" || sameName(cluster, clusterName), userAssigned };
}

/** True if the Service asks for the public IP by address or by name. */
function isSelected(publicIP: PublicIP, subject: Subject): boolean {
  const family = familyOfPublicIP(publicIP);
  const name = wantedPublicIP(subject, family);
  const address = wantedAddress(subject, family);
  return (
    (name !== "" && sameName(publicIP.name ?? "", name)) || (address !== "" && sameAddress(publicIP.ipAddress, address))
  );
}
