import {
  type Cloud,
  type Controller,
  type Explanation,
  type KnownWarning,
  messageOf,
  type OperatorWarning,
} from "cloud-controller-host/sdk";

/** A condition that needs an operator, and the controller or the cloud that has it. */
export interface OwnWarning extends Partial<KnownWarning> {
  readonly source: string;
  readonly text: string;
}

/** Status of a controller or the cloud, from its `status()`. */
export interface OwnStatus {
  readonly name: string;
  readonly sections: readonly Explanation[];
}

/** A controller or the cloud, and its name. */
export interface Reporter {
  readonly name: string;
  readonly source: Pick<Controller | Cloud, "warnings" | "status">;
}

const ownWarning = (source: string, warning: OperatorWarning): OwnWarning =>
  typeof warning === "string" ? { source, text: warning } : { ...warning, source };

/** Warnings of all reporters. Where one throws or returns no list, the error is its warning. */
export const warningsOf = (reporters: readonly Reporter[]): readonly OwnWarning[] =>
  reporters.flatMap(({ name, source }) => {
    try {
      return (source.warnings?.() ?? []).map((warning) => ownWarning(name, warning));
    } catch (error) {
      return [{ source: name, text: `its warnings() failed: ${messageOf(error)}` }];
    }
  });

/** Status sections of all reporters that have any, by name. Where one throws, its section is the error. */
export const statusOf = (reporters: readonly Reporter[]): readonly OwnStatus[] =>
  reporters.flatMap(({ name, source }) => {
    try {
      return source.status === undefined ? [] : [{ name, sections: source.status() }];
    } catch (error) {
      return [{ name, sections: [{ title: `its status() failed: ${messageOf(error)}` }] }];
    }
  });
