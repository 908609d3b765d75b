// Validates ScaledObjects by KEDA's schema.
//
// in:  [object]
// out: [message], one per invalid object

import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);

const complaints = [];
for (const object of JSON.parse(Buffer.concat(chunks).toString())) {
  try {
    new ScaledObject(object).validate();
  } catch (error) {
    complaints.push(`${object.metadata.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(complaints));
