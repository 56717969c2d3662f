import type { Cloud, CloudPlugin } from "cloud-controller-host/sdk";

import { interceptCloud } from "../generation/prepare/intercept-cloud.ts";
import type { Activity } from "./activity.ts";
import type { RecordedWrites } from "./recorded.ts";

interface Parts {
  readonly writes: RecordedWrites;
  readonly activity: Activity;
  cloud?: Cloud;
}

/**
 * The cloud plugin for a plan: its calls count as activity, and its writes are recorded. Calls that would write are
 * listed and not made where the cloud cannot plan them itself.
 */
export function planningPlugin(plugin: CloudPlugin, parts: Parts): CloudPlugin {
  const { writes, activity } = parts;
  return {
    ...plugin,
    bind(document, environment) {
      const decoded = plugin.bind(document, environment);
      if (!decoded.ok) return decoded;
      return {
        ...decoded,
        value: async (context) => {
          const cloud = await decoded.value(plugin.plans ? { ...context, planning: writes } : context);
          parts.cloud = cloud;
          return interceptCloud(cloud, {
            read: (_method, call) => activity.track(call),
            write(method, call, subject, instead) {
              if (plugin.plans) return activity.track(call);
              writes.call(method, subject);
              return Promise.resolve(instead);
            },
          });
        },
      };
    },
  };
}
