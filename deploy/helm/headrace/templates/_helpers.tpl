{{- define "headrace.selector" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "headrace.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (.image | default dict) -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* A value as the text of a variable. Helm reads all numbers as floating-point ones, and would write 1000000 as 1e+06. */ -}}
{{- define "headrace.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end }}

{{- /* The settings of all services, as JSON. */ -}}
{{- define "headrace.config" -}}
{{- $valkey := ternary (printf "%s-valkey" .Release.Name) "valkey" .Values.valkey.enabled -}}
{{- $nats := ternary (printf "%s-nats" .Release.Name) "nats" .Values.nats.enabled -}}
{{- $own := dict
  "HEADRACE_REDIS_URL" (printf "redis://%s:6379/0" $valkey)
  "HEADRACE_NATS_URL" (printf "nats://%s:4222" $nats) -}}
{{- if and .Values.nats.enabled (gt (int .Values.nats.replicas) 1) -}}
{{- $_ := set $own "HEADRACE_REPLICAS" .Values.nats.replicas -}}
{{- end -}}
{{- mergeOverwrite $own .Values.config | toJson -}}
{{- end }}

{{- define "headrace.topologySpread" -}}
{{- range .root.Values.topologySpread }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "headrace.selector" $ | nindent 6 }}
{{- end }}
{{- end }}

{{- /* Which nodes the pods of a component may run on: its values. */ -}}
{{- define "headrace.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "headrace.podDisruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels: {{- include "headrace.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels: {{- include "headrace.selector" . | nindent 6 }}
{{- end }}

{{- /* The values of files of a part over those of the whole, as JSON: whole, own. An entry replaces another as a whole,
because one may name a Secret and the other a ConfigMap, and a login on NATS replaces any other login. */ -}}
{{- define "headrace.filesOver" -}}
{{- $own := .own | default dict -}}
{{- $files := deepCopy (.whole | default dict) -}}
{{- $byFile := pick $own "HEADRACE_NATS_CREDS_FILE" "HEADRACE_NATS_NKEY_FILE" "HEADRACE_NATS_TOKEN_FILE" -}}
{{- $byPassword := pick $own "HEADRACE_NATS_USER_FILE" "HEADRACE_NATS_PASSWORD_FILE" -}}
{{- if or $byFile $byPassword -}}
{{- $files = omit $files "HEADRACE_NATS_CREDS_FILE" "HEADRACE_NATS_NKEY_FILE" "HEADRACE_NATS_TOKEN_FILE" -}}
{{- end -}}
{{- if $byFile -}}
{{- $files = omit $files "HEADRACE_NATS_USER_FILE" "HEADRACE_NATS_PASSWORD_FILE" -}}
{{- end -}}
{{- range $setting, $of := $own -}}
{{- $_ := set $files $setting $of -}}
{{- end -}}
{{- $files | toJson -}}
{{- end }}

{{- /* The files of one component by the settings that name them, as JSON: root, values. */ -}}
{{- define "headrace.files" -}}
{{- $files := dict -}}
{{- range $setting, $of := include "headrace.filesOver" (dict "whole" .root.Values.files "own" .values.files) | fromJson -}}
{{- $mounted := list -}}
{{- range $number, $file := kindIs "slice" $of | ternary $of (list $of) -}}
{{- $volume := printf "%s-%d" ($setting | trimPrefix "HEADRACE_" | lower | replace "_" "-") $number -}}
{{- $items := list (dict "key" $file.key "path" $file.key) -}}
{{- $source := dict "secret" (dict "secretName" $file.secret "items" $items) -}}
{{- if $file.configMap -}}
{{- $source = dict "configMap" (dict "name" $file.configMap "items" $items) -}}
{{- end -}}
{{- $folder := printf "/run/headrace/files/%s" $volume -}}
{{- $mounted = append $mounted (dict "volume" $volume "source" $source "folder" $folder "key" $file.key) -}}
{{- end -}}
{{- $_ := set $files $setting $mounted -}}
{{- end -}}
{{- $files | toJson -}}
{{- end }}

{{- /* The Deployment of one component: root, component, values, args, port, grace, env, secrets, preStop. */ -}}
{{- define "headrace.deployment" -}}
{{- $files := include "headrace.files" . | fromJson }}
{{- $env := deepCopy .env }}
{{- $secrets := deepCopy .secrets }}
{{- /* Another login than by user and password. */}}
{{- if or (hasKey $files "HEADRACE_NATS_CREDS_FILE") (hasKey $files "HEADRACE_NATS_NKEY_FILE") (hasKey $files "HEADRACE_NATS_TOKEN_FILE") }}
{{- $env = omit $env "HEADRACE_NATS_USER" "HEADRACE_NATS_PASSWORD_FILE" }}
{{- end }}
{{- range $setting, $mounted := $files }}
{{- $paths := list }}
{{- range $mounted }}
{{- $paths = append $paths (printf "%s/%s" .folder .key) }}
{{- end }}
{{- $env = set (omit $env (trimSuffix "_FILE" $setting)) $setting (join "," $paths) }}
{{- end }}
{{- $env = mergeOverwrite $env .values.config }}
{{- $secretEnv := mergeOverwrite (deepCopy .root.Values.secretEnv) (.values.secretEnv | default dict) }}
{{- range $name, $_ := $secretEnv }}
{{- $env = omit $env $name }}
{{- end }}
{{- /* A Secret of which no setting names a file need not exist. */}}
{{- $stated := concat (values $env) (include "headrace.config" .root | fromJson | values) | join "," }}
{{- range $name, $secret := $secrets }}
{{- if not (contains (printf "/run/headrace/%s/" $name) $stated) }}
{{- $secrets = omit $secrets $name }}
{{- end }}
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels: {{- include "headrace.labels" . | nindent 4 }}
spec:
  {{- if eq (dig "autoscaling" "by" "none" .values) "none" }}
  replicas: {{ .values.replicas }}
  {{- end }}
  strategy:
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  selector:
    matchLabels: {{- include "headrace.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "headrace.labels" . | nindent 8 }}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8080"
        checksum/config: {{ include "headrace.config" .root | sha256sum }}
    spec:
      terminationGracePeriodSeconds: {{ .grace }}
      automountServiceAccountToken: false
      # Otherwise a Service called headrace-http would set HEADRACE_HTTP_PORT.
      enableServiceLinks: false
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      topologySpreadConstraints: {{- include "headrace.topologySpread" . | nindent 8 }}
      {{- include "headrace.scheduling" .values | nindent 6 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        seccompProfile: { type: RuntimeDefault }
      containers:
        - name: {{ .container }}
          image: {{ include "headrace.image" (dict "root" .root "image" .values.image) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{- toYaml .args | nindent 12 }}
          envFrom:
            - configMapRef: { name: {{ .root.Release.Name }}-config }
          env:
            {{- range $name, $value := $env }}
            - { name: {{ $name }}, value: {{ include "headrace.text" $value | quote }} }
            {{- end }}
            {{- range $name, $of := $secretEnv }}
            - name: {{ $name }}
              valueFrom: { secretKeyRef: { name: {{ $of.secret }}, key: {{ $of.key }} } }
            {{- end }}
          ports:
            {{- range $name, $port := .ports }}
            - { name: {{ $name }}, containerPort: {{ $port }} }
            {{- end }}
          {{- with .preStop }}
          lifecycle:
            preStop:
              exec: { command: [sleep, {{ . | toString | quote }}] }
          {{- end }}
          # The service listens at once, and becomes ready when NATS is available.
          startupProbe:
            httpGet: { path: /healthz, port: 8080 }
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet: { path: /healthz, port: 8080 }
            periodSeconds: 10
            timeoutSeconds: 5
          readinessProbe:
            httpGet: { path: /readyz, port: 8080 }
            periodSeconds: 5
            timeoutSeconds: 3
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          volumeMounts:
            - { name: tmp, mountPath: /tmp }
            {{- range $name, $secret := $secrets }}
            - { name: {{ $name }}, mountPath: /run/headrace/{{ $name }}, readOnly: true }
            {{- end }}
            {{- range $setting, $mounted := $files }}
            {{- range $mounted }}
            - { name: {{ .volume }}, mountPath: {{ .folder }}, readOnly: true }
            {{- end }}
            {{- end }}
      volumes:
        - { name: tmp, emptyDir: {} }
        {{- range $setting, $mounted := $files }}
        {{- range $mounted }}
        - {{ merge (dict "name" .volume) .source | toJson }}
        {{- end }}
        {{- end }}
        {{- range $name, $secret := $secrets }}
        - { name: {{ $name }}, secret: { secretName: {{ $secret }} } }
        {{- end }}
---
{{ include "headrace.podDisruptionBudget" . }}
{{- end }}

{{- /* The autoscaler of one component: root, component, values, query, threshold. */ -}}
{{- define "headrace.autoscaler" -}}
{{- $scaling := .values.autoscaling -}}
{{- if and (ne $scaling.by "none") (gt (int $scaling.min) (int $scaling.max)) -}}
{{- fail (printf "%s: autoscaling.min is %d, more than autoscaling.max, %d" .component (int $scaling.min) (int $scaling.max)) -}}
{{- end -}}
{{- if eq $scaling.by "cpu" }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels: {{- include "headrace.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ .root.Release.Name }}-{{ .component }} }
  minReplicas: {{ $scaling.min }}
  maxReplicas: {{ $scaling.max }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: AverageValue, averageValue: {{ $scaling.cpu }} }
  behavior:
    scaleDown: { stabilizationWindowSeconds: 600 }
{{- else if eq $scaling.by "keda" }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels: {{- include "headrace.labels" . | nindent 4 }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ .root.Release.Name }}-{{ .component }} }
  minReplicaCount: {{ $scaling.min }}
  maxReplicaCount: {{ $scaling.max }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown: { stabilizationWindowSeconds: 600 }
  triggers:
    - type: prometheus
      metricType: AverageValue
      metadata:
        serverAddress: {{ .root.Values.prometheus.url }}
        query: {{ .query | quote }}
        threshold: {{ include "headrace.text" .threshold | quote }}
        # Without data the number of replicas stays: NATS or Prometheus does not answer.
        ignoreNullValues: "false"
{{- end }}
{{- end }}
