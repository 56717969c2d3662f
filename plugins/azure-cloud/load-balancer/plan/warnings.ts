import type { Service, ServiceWarning } from "cloud-controller-host/sdk";

import { oncePer } from "../model/once-per.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { readSubject } from "../service/subject.ts";
import { unknownAnnotations } from "../service/unknown-annotations.ts";
import { withoutEffect } from "../service/without-effect.ts";
import { accessOf } from "./security-group/access.ts";

/** What is wrong with the settings of a Service, whatever Azure holds, apart from problems for which it is refused. */
export const serviceWarnings = (service: Service, config: PlannerConfig): readonly ServiceWarning[] =>
  warningsBy(config)(service);

const warningsBy = oncePer((config: PlannerConfig) => oncePer((service: Service) => warningsOf(service, config)));

function warningsOf(service: Service, config: PlannerConfig): readonly ServiceWarning[] {
  const { subject, warnings } = readSubject(service, config);
  const invalid = [...warnings, ...accessOf(subject).warnings, ...unknownAnnotations(service)];
  return [
    ...invalid.map((message) => ({ reason: "InvalidConfiguration", message })),
    ...withoutEffect(subject, config).map((message) => ({ reason: "AnnotationIgnored", message })),
  ];
}
