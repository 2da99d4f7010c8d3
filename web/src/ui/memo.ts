import { Component, createElement, type ComponentType, type VNode } from "preact";

type Equal<P> = (before: P, after: P) => boolean;

function shallowEqual<P extends object>(before: P, after: P): boolean {
  const keys = Object.keys(after) as (keyof P)[];
  return keys.length === Object.keys(before).length && keys.every((key) => before[key] === after[key]);
}

/** A component that is drawn again only if its properties have changed. preact/compat has one, and much more. */
export function memo<P extends object>(inner: ComponentType<P>, equal: Equal<P> = shallowEqual): ComponentType<P> {
  return class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      return !equal(this.props as P, next as P);
    }

    override render(): VNode {
      return createElement(inner as ComponentType<object>, this.props);
    }
  };
}
