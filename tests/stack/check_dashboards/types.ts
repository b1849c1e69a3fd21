// A dashboard as it stands in JSON, by Grafana's types: no property that they lack,
// no value of another type, and each panel's options and field settings by its kind.
import type * as common from '@grafana/schema';
import type * as raw from '../node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type * as bargauge from '../node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type * as heatmap from '../node_modules/@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/types.gen';
import type * as stat from '../node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as table from '../node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as xychart from '../node_modules/@grafana/schema/dist/types/raw/composable/xychart/panelcfg/x/types.gen';
import type * as timeseries from '../node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

// Enums are their values in JSON.
type Json<T> =
  T extends string ? (string extends T ? string : `${T}`)
  : T extends number ? (`${T}` extends `${infer N extends number}` ? N : never)
  : T extends (infer Each)[] ? Json<Each>[]
  : T extends object ? { [K in keyof T]: Json<T[K]> }
  : T;

type Datasource = { type: 'prometheus'; uid: '${datasource}' };

// The query model of Grafana's Prometheus data source.
type PrometheusQuery = {
  refId: string;
  datasource: Datasource;
  expr: string;
  legendFormat: string;
  editorMode: 'code';
  format: 'time_series' | 'table' | 'heatmap';
} & ({ instant: true; range: false } | { instant: false; range: true; exemplar?: true });

// What an override can set, of what is used here.
type Property<Custom> =
  | { id: 'unit'; value: string }
  | { id: 'color'; value: Json<raw.FieldColor> }
  | { id: 'thresholds'; value: Json<raw.ThresholdsConfig> }
  | { id: 'mappings'; value: Json<raw.ValueMapping>[] }
  | { id: 'decimals'; value: number }
  | { id: 'links'; value: { title: string; url: string; targetBlank: boolean }[] }
  | ('lineStyle' extends keyof Custom ? { id: 'custom.lineStyle'; value: Json<common.LineStyle> } : never)
  | ('width' extends keyof Custom ? { id: 'custom.width'; value: number } : never)
  | ('hideFrom' extends keyof Custom ? { id: 'custom.hideFrom.viz'; value: boolean } : never)
  | ('cellOptions' extends keyof Custom
      ? { id: 'custom.cellOptions'; value: Json<common.TableAutoCellOptions | common.TableColorTextCellOptions | common.TableColoredBackgroundCellOptions> }
      : never);

type Overrides<Custom> = {
  matcher: { id: 'byName' | 'byRegexp'; options: string };
  properties: Property<Custom>[];
}[];

type Transformation =
  | { id: 'merge'; options: Record<string, never> }
  | {
      id: 'organize';
      options: {
        excludeByName: Record<string, boolean>;
        indexByName: Record<string, number>;
        renameByName: Record<string, string>;
      };
    };

type PanelOf<Kind extends string, Options, Custom> = Omit<
  Json<raw.Panel>, 'type' | 'options' | 'fieldConfig' | 'targets' | 'datasource' | 'transformations' | 'id' | 'gridPos'
> & {
  id: number;
  type: Kind;
  gridPos: Json<raw.GridPos>;
  datasource: Datasource;
  targets: PrometheusQuery[];
  options: Json<Options>;
  fieldConfig: {
    defaults: Omit<Json<raw.FieldConfig>, 'custom'> & { custom?: Json<Custom> };
    overrides: Overrides<Custom>;
  };
  transformations?: Transformation[];
};

export type BarGauge = PanelOf<'bargauge', bargauge.Options, Record<string, never>>;
export type HeatMap = PanelOf<'heatmap', heatmap.Options, heatmap.FieldConfig>;
export type Stat = PanelOf<'stat', stat.Options, Record<string, never>>;
export type Table = PanelOf<'table', table.Options, Omit<table.FieldConfig, 'cellOptions'> & {
  cellOptions: common.TableAutoCellOptions;
}>;
export type TimeSeries = PanelOf<'timeseries', timeseries.Options, timeseries.FieldConfig>;
export type XYChart = PanelOf<'xychart', xychart.Options, xychart.FieldConfig>;
export type Row = Omit<Json<raw.RowPanel>, 'panels' | 'gridPos'> & { gridPos: Json<raw.GridPos>; panels: never[] };

type Variable = Omit<Json<raw.VariableModel>, 'query' | 'datasource' | 'type'> & (
  | { type: 'datasource'; query: 'prometheus' }
  | { type: 'custom'; query: string }
  | { type: 'query'; query: { query: string; refId: string }; datasource: Datasource }
);

// An annotation whose query goes to Prometheus.
type Annotation = Omit<Json<raw.AnnotationQuery>, 'datasource' | 'target' | 'filter'> & {
  datasource: Datasource;
  expr: string;
  step: string;
  titleFormat: string;
  textFormat: string;
  tagKeys: string;
  useValueForTime: boolean;
};

// Everything but the panels, which are checked one by one so that an error names its panel.
export type Dashboard = Omit<
  Json<raw.Dashboard>, 'panels' | 'templating' | 'annotations' | 'id' | 'schemaVersion'
> & {
  annotations: { list: Annotation[] };
  schemaVersion: 42;
  templating: { list: Variable[] };
};
