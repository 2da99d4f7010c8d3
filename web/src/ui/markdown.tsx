import DOMPurify, { type Config } from "dompurify";
import { Marked, type Token, type TokensList } from "marked";
import { memo } from "./memo.ts";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { cleanText } from "../model/ansi.ts";
import { Code } from "./code.tsx";

const marked = new Marked({ gfm: true, breaks: false });

// What agents write is hostile. Nothing that loads from elsewhere, submits, styles, or has a name stays.
const RULES: Config & { RETURN_TRUSTED_TYPE: true } = {
  ALLOWED_TAGS: [
    "a", "b", "blockquote", "br", "code", "del", "details", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "input", "kbd", "li", "ol",
    "p", "pre", "s", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "title", "start", "align", "colspan", "rowspan", "type", "checked", "disabled"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_TRUSTED_TYPE: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.nodeName === "INPUT") {
    node.setAttribute("type", "checkbox");
    node.setAttribute("disabled", "");
    node.setAttribute("tabindex", "-1");
    node.setAttribute("aria-hidden", "true");
  }
});

/** Cleans HTML for `innerHTML`, as trusted HTML where the browser has that. */
function cleanHtml(html: string): string {
  // With trusted types it is trusted HTML, which the types of the DOM do not know.
  return DOMPurify.sanitize(html, RULES) as unknown as string;
}

/** Markdown as it is written: finished paragraphs are parsed and drawn once. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => {
    const tokens = marked.lexer(cleanText(text));
    const links = tokens.links;
    return tokens.filter((token) => token.type !== "space").map((token) => ({ token, links }));
  }, [text]);
  return (
    <div class="markdown">
      {blocks.map(({ token, links }, index) =>
        token.type === "code" ? (
          <Code key={index} text={String((token as { text?: string }).text ?? "")} language={String((token as { lang?: string }).lang ?? "")} />
        ) : (
          <HtmlBlock key={index} token={token} links={links} />
        ),
      )}
    </div>
  );
});

type Links = TokensList["links"];

/** One paragraph, list or table. Drawn again only if its source has changed. */
const HtmlBlock = memo(
  function HtmlBlock({ token, links }: { token: Token; links: Links }) {
    const element = useRef<HTMLDivElement>(null);
    useLayoutEffect(() => {
      const source = Object.assign([token], { links });
      if (element.current) element.current.innerHTML = cleanHtml(imagesAsLinks(marked.parser(source)));
    }, [token.raw]);
    return <div class="html" dir="auto" ref={element} />;
  },
  (before, after) => before.token.raw === after.token.raw && before.token.type === after.token.type,
);

/** An image would tell its server that somebody reads this. It becomes a link. */
function imagesAsLinks(html: string): string {
  return html.replace(/<img\s[^>]*>/gi, (tag) => {
    const source = /\ssrc="(https?:[^"]*)"/i.exec(tag)?.[1];
    const name = /\salt="([^"]*)"/i.exec(tag)?.[1] || "image";
    return source ? `<a href="${source}">${name}</a>` : name;
  });
}
