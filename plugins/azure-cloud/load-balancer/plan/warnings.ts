import type { Service, ServiceWarning } from "cloud-controller-host/sdk";

import type { PlannerConfig } from "../model/planner-config.ts";
import { readSubject, type Subject } from "../service/subject.ts";
import { unknownAnnotations } from "../service/unknown-annotations.ts";
import { withoutEffect } from "../service/without-effect.ts";
import { accessOf } from "./security-group/access.ts";

/** Subjects are never changed in place, and every plan asks for the warnings of its Services. */
const known = new WeakMap<Subject, readonly ServiceWarning[]>();

/** What is wrong with the settings of a Service, whatever Azure holds, apart from problems for which it is refused. */
export function serviceWarnings(service: Service, config: PlannerConfig): readonly ServiceWarning[] {
  const { subject, warnings } = readSubject(service, config);
  const found = known.get(subject) ?? warningsOf(subject, warnings, config);
  known.set(subject, found);
  return found;
}

function warningsOf(subject: Subject, read: readonly string[], config: PlannerConfig): readonly ServiceWarning[] {
  const invalid = [...read, ...accessOf(subject).warnings, ...unknownAnnotations(subject.service)];
  return [
    ...invalid.map((message) => ({ reason: "InvalidConfiguration", message })),
    ...withoutEffect(subject, config).map((message) => ({ reason: "AnnotationIgnored", message })),
  ];
}
