import { describeAdoptedPlans } from "./replay/plans.ts";

describeAdoptedPlans();
