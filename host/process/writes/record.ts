import type { CloudWrite } from "cloud-controller-host/sdk";

import type { FieldChange } from "../../changes/fields.ts";
import { plain, shortened, shownText } from "../log/fields.ts";

/** One write of a controller or of its cloud, as `/statusz/writes` and the audit log show it. */
export interface WriteRecord extends Omit<CloudWrite, "change"> {
  /** When it was sent, RFC 3339. */
  readonly at: string;
  readonly generation: number;
  /** The client name of the controller, or of the cloud. */
  readonly controller: string;
  readonly system: "cloud" | "kubernetes";
  /** Services and nodes behind it, and keys of the cloud config that a reload has changed: `config key tags`. */
  readonly causes: readonly string[];
  /** Number of causes beyond these. */
  readonly moreCauses?: number;
  /** Empty for a deletion, and where the state before the write is not known. */
  readonly fields: readonly FieldChange[];
  readonly moreFields?: number;
}

/** True if a write is of an object like `Service default/web`, or was caused by it. */
export const concerns = ({ resource, causes }: Pick<WriteRecord, "resource" | "causes">, subject: string): boolean =>
  causes.includes(subject) || resource === subject || resource.startsWith(`${subject} (`);

/** Identity of a record's writer. */
export type WriteSource = Pick<WriteRecord, "controller" | "generation" | "system">;

export interface WriteDetails {
  readonly causes: readonly string[];
  readonly fields: readonly FieldChange[];
}

const maxCauses = 20;
const maxFields = 40;
const maxValueCharacters = 256;
const maxErrorCharacters = 2_048;

/** A value that may be secret: of an annotation, or of an object of another kind than these. */
const notRecorded = "(not recorded)";
const shownKinds = /^(?:Node|Service) /u;

/** The record, bounded in size and without secrets. */
export function recordOf(at: number, source: WriteSource, write: Omit<CloudWrite, "change">, details: WriteDetails) {
  const { error, milliseconds, ...sent } = write;
  const shows = (path: string): boolean =>
    source.system === "cloud" || (shownKinds.test(write.resource) && !path.startsWith("metadata.annotations"));
  const fields = details.fields.slice(0, maxFields).map((field) => shownField(field, shows(field.path)));
  const [moreCauses, moreFields] = [details.causes.length - maxCauses, details.fields.length - maxFields];
  const record: WriteRecord = {
    at: new Date(at - milliseconds).toISOString(),
    ...source,
    ...sent,
    causes: details.causes.slice(0, maxCauses),
    ...(moreCauses > 0 && { moreCauses }),
    fields,
    ...(moreFields > 0 && { moreFields }),
    ...(error !== undefined && { error: shortened(shownText(error), maxErrorCharacters) }),
    milliseconds: Math.round(milliseconds),
  };
  return record;
}

function shownField({ path, ...values }: FieldChange, isShown: boolean): FieldChange {
  const name = path.slice(path.lastIndexOf(".") + 1);
  const shown = Object.entries(values).map(([key, value]) => [key, isShown ? shownValue(name, value) : notRecorded]);
  return { path: shortened(path, maxValueCharacters), ...Object.fromEntries(shown) };
}

function shownValue(name: string, value: unknown): unknown {
  const shown = plain(name, value);
  const text = JSON.stringify(shown) ?? "";
  return text.length <= maxValueCharacters ? shown : shortened(text, maxValueCharacters);
}
