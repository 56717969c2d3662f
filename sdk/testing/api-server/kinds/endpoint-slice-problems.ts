import type { EndpointSlice } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import type { Problem } from "../access/status.ts";
import { duplicate, invalidValue, required, unsupported } from "../validation.ts";

const addressTypes = ["FQDN", "IPv4", "IPv6"];
const maxAddresses = 100;

/** Validation of an EndpointSlice. Source: kubernetes `pkg/apis/discovery/validation`. */
export function problemsOfSlice(next: EndpointSlice, before: EndpointSlice | undefined): readonly Problem[] {
  const { addressType } = next;
  if (addressType === "") return [required("addressType")];
  if (!addressTypes.includes(addressType)) return [unsupported("addressType", addressType, addressTypes)];
  if (before !== undefined && before.addressType !== addressType)
    return [invalidValue("addressType", addressType, "field is immutable")];
  return [...endpointProblems(next), ...portProblems(next)];
}

const endpointProblems = ({ addressType, endpoints }: EndpointSlice): readonly Problem[] =>
  (endpoints ?? []).flatMap(({ addresses }, index) => {
    const field = `endpoints[${index}].addresses`;
    if (addresses.length === 0) return [required(field, "must contain at least 1 address")];
    if (addresses.length > maxAddresses) {
      const message = `Too many: ${addresses.length}: must have at most ${maxAddresses} items`;
      return [{ field, reason: "FieldValueTooMany", message }];
    }
    return addresses.flatMap((address, at) => {
      const family = familyOf(address);
      if (addressType === "FQDN" || family === addressType) return [];
      if (family === undefined) return [invalidValue(`${field}[${at}]`, address, "must be a valid IP address")];
      return [invalidValue(field, address, `must be an ${addressType} address`)];
    });
  });

function familyOf(address: string): string | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return "IPv4";
  return address.includes(":") && ipaddr.IPv6.isValid(address) ? "IPv6" : undefined;
}

function portProblems({ ports }: EndpointSlice): readonly Problem[] {
  const names = (ports ?? []).map(({ name }) => name ?? "");
  return names.flatMap((name, index) =>
    names.indexOf(name) === index ? [] : [duplicate(`ports[${index}].name`, name)],
  );
}
