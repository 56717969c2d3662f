import type { AnnotationHelp } from "cloud-controller-host/sdk";

import { annotationPrefix } from "./annotation-rows.ts";
import { annotations, portAnnotations } from "./annotations.ts";

/** Both tables for `help annotations`, without the markup of the reference page. */
export const annotationHelp = (): readonly AnnotationHelp[] =>
  [...Object.values(annotations), ...Object.values(portAnnotations)].map(
    ({ key, values, fallback, effect, invalid }) => ({
      key: annotationPrefix + key,
      values: values.replaceAll("`", ""),
      fallback: fallback.replaceAll("`", ""),
      effect: effect.replaceAll("`", ""),
      invalid,
    }),
  );
