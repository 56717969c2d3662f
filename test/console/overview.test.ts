import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, readFile, writeFile } from "node:fs/promises";

import { kinds, taints } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { createService, deleteService } from "../kit/sandbox-services.ts";
import { axeFindings, untilText } from "./browser.ts";
import { SandboxPages } from "./sandbox-pages.ts";

setDefaultTimeout(240_000);

const pages = new SandboxPages();

describe("the overview", () => {
  test("names a failing Service with its cause as it fails, and nothing once it is gone", async () => {
    const { page, complaints } = await pages.visit("overview");
    await untilText(page, "Nothing is wrong");
    await createService(pages.sandbox, "bad", { "service.beta.kubernetes.io/azure-dns-label-name": "-" });
    const text = await untilText(page, "Service fails");
    expect(text).toContain('azure-dns-label-name: "-" is not valid');
    expect(text).toContain("What to do:");
    await page.locator("text/Runbook: CloudLoadBalancerSyncFailing").click();
    await untilText(page, "kubectl get events -A --field-selector reason=SyncLoadBalancerFailed");
    await page.goBack();
    await page.locator("text/Show services/default/bad").click();
    await untilText(page, "SyncLoadBalancerFailed");
    expect(page.url()).toEndWith("/ui/services/default/bad");
    await page.goBack();
    await deleteService(pages.sandbox, "bad");
    await untilText(page, "Nothing is wrong");
    expect(complaints).toEqual([]);
  });

  test("names a node without an instance, and Controllers the error of its initialization", async () => {
    const { page } = await pages.visit("overview");
    await untilText(page, "Nothing is wrong");
    const taint = { key: taints.uninitialized, value: "true", effect: "NoSchedule" } as const;
    pages.sandbox.api.create(kinds.Node, { metadata: { name: "ghost" }, spec: { taints: [taint] } });
    expect(await untilText(page, "Node is not initialized")).toMatch(/ghost[^]*Controllers has the latest error/u);
    await page.locator("text/Controllers").click();
    await untilText(page, /nodes that fail: 1\s+ghost\s+[^]*instance not found/u);
    pages.sandbox.api.delete(kinds.Node, { name: "ghost" });
    await page.locator("text/Overview").click();
    await untilText(page, "Nothing is wrong");
  });

  test("names a refused reload with the key, until the config is fixed", async () => {
    const { page } = await pages.visit("overview");
    const before = await readFile(pages.sandbox.files.cloudConfig, "utf8");
    await appendFile(pages.sandbox.files.cloudConfig, '\nvmType: "unknown"\n');
    expect(await untilText(page, "Reload refused")).toContain("vmType");
    await page.locator("text/Leadership").click();
    const timeline = await untilText(page, "ReloadRefused");
    expect(timeline).toMatch(/✖ refused\s+vmType/u);
    await writeFile(pages.sandbox.files.cloudConfig, before);
    await page.locator("text/Overview").click();
    await untilText(page, "Nothing is wrong", 30_000);
  });
});

test("the plan shows what would be written now, with its cause and its fields, and is made again when asked", async () => {
  pages.sandbox.cloud?.fail?.({ method: "PUT", path: "loadBalancers", status: 403, forMs: 120_000 });
  await createService(pages.sandbox, "planned");
  const { page, complaints } = await pages.visit("plan");
  const again = async (): Promise<boolean> => {
    await page.evaluate("document.querySelector('main button:enabled')?.click()");
    return String(await page.evaluate("document.body.innerText")).includes("Because of Service default/planned");
  };
  await eventually("the plan has it", again, 60_000);
  await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true");
  await untilText(page, "frontendIPConfigurations[");
  expect(await untilText(page, "change Service default/planned")).not.toContain("could not be planned");
  expect(await axeFindings(page)).toEqual([]);
  await page.setViewport({ width: 360, height: 640 });
  expect(Number(await page.evaluate("document.documentElement.scrollWidth"))).toBeLessThanOrEqual(360);
  expect(complaints).toEqual([]);
  pages.sandbox.cloud?.recover?.();
  await deleteService(pages.sandbox, "planned");
});
