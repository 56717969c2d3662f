import { CodedError, suggestionFor } from "cloud-controller-host/sdk";

import { resourceTypes } from "./resources/resource-types.ts";

const typeNames = [...new Set(resourceTypes.flatMap(({ type }) => type.split("/").slice(1)))];
/** A slip or two of the finger. */
const maxDistance = 2;

/**
 * The part of a path whose requests are to fail. Throws for one that misspells a type of resource, which no request has;
 * any other may be the name of a resource.
 */
export function faultPath(path: string): string {
  for (const word of path.split("/").map((part) => part.toLowerCase())) {
    if (typeNames.some((name) => name.toLowerCase().includes(word))) continue;
    const suggestion = suggestionFor(word, typeNames, { maxDistance });
    if (suggestion === "") continue;
    throw new CodedError(
      "InvalidArgument",
      `no request has "${path}" in its path${suggestion}; the types of resources are ${typeNames.join(", ")}`,
    );
  }
  return path;
}
